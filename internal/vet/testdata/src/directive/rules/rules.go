package rules

type a struct {
	//outbox:allow J06 the generator looks at it
	known int

	//outbox:allow J6 reason // want `there is no rule J6; rules are`
	unknown int
}

//outbox:allow outboxhandler the analyzer of that name looks at it
var b int

//outbox:allow outboxtxs reason // want `there is no rule outboxtxs; did you mean outboxtx\? rules are J and two digits, as outboxgen prints them, and the names of analyzers`
var c int

// want +2 `//outbox:allow needs a rule and a reason; write //outbox:allow RULE REASON`

//outbox:allow outboxdirective
var d int

//outbox:allow outboxdirective what follows is prose
// outbox:event is the directive that this is about
var e int

var f int // outbox:event is what this is about // want `is not a directive`
//outbox:allow outboxdirective nothing is here // want `//outbox:allow outboxdirective allows nothing here; move it to the line above the report, or remove it`

var g int // outbox:event is what this is about // want `is not a directive`

//outbox:allow outboxdirective the next line, but no other
/* outbox:event */
/* outbox:event */ var h int
