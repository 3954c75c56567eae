package place

// want +2 `//outbox:event stands alone, where it has no effect; move it to the doc comment of the event's struct type, with no blank line between`

//outbox:event place.alone

// want +2 `key=Code: a float has no one spelling; use a string`

//outbox:event place.made key=Code
type Made struct {
	Code float64
}

// want +2 `topic name "place.made" is taken at place.go:9:16; rename one of the two topics` `version=2 of Again has no upcast from 1`

//outbox:event place.made version=2
type Again struct {
	C chan int // what is lost of a payload is for another analyzer
}

func f() {
	// want +2 `//outbox:upcast stands within the function f`

	//outbox:upcast Made from=1
}
