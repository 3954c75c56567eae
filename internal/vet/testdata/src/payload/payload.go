package payload

// Made has a key that outboxdirective would report.
//
//outbox:event payload.made key=Nothing
type Made struct {
	C     chan int // want `Made.C: chan int cannot be written as JSON, and Enqueue would fail; leave the field out with json:"-", or change its type`
	Lines []Line
	Any   interface{} // which is what JSON has
	F     func()      `json:"-"`
}

type Line struct {
	secret int // want `Made.Lines\[\].secret: encoding/json drops unexported fields`
}

// Other is no event.
type Other struct{ C chan int }

//outbox:event payload.allowed
type Allowed struct {
	//outbox:allow outboxpayload a row of it is never read
	C chan int
	D chan int //outbox:allow outboxpayload nor this
}
