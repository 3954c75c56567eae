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

//outbox:event payload.raised version=9
type Raised struct{ A, B, C int }

type inner struct{ D, E int }

type raisedV1 struct {
	A, B, C int
	inner
	Gone int `json:"-"`
}

func raise(old raisedV1) (Raised, error) { return Raised{A: old.A}, nil }

func (v raisedV1) raise() Raised { return Raised{A: v.A} }

//outbox:upcast Raised from=1
func from1(old raisedV1) (raisedV1, error) { // want `from1 never reads old.B: its value in rows of version 1 would be dropped; use it, or say so with _ = old.B` `from1 never reads old.inner`
	return raisedV1{A: (old).A, C: old.C}, nil
}

//outbox:upcast Raised from=2
func from2(old raisedV1) (raisedV1, error) {
	_ = old.B
	sum := func() int { return old.A + old.C + old.D }
	return raisedV1{A: sum()}, nil
}

//outbox:upcast Raised from=3
func from3(old raisedV1) (raisedV1, error) { return old, nil }

//outbox:upcast Raised from=4
func from4(old *raisedV1) (*raisedV1, error) { // want `from4 never reads old.C: its value in rows of version 4` `from4 never reads old.inner`
	return &raisedV1{A: old.A, B: old.B}, nil
}

//outbox:upcast Raised from=5
func from5(old *raisedV1) (r Raised, err error) { return raise(*old) }

//outbox:upcast Raised from=6
func from6(old raisedV1) (Raised, error) { return old.raise(), nil }

//outbox:upcast Raised from=7
func from7(raisedV1) (r Raised, err error) { return r, err } // want `from7 reads nothing of what it takes: all values in rows of version 7 would be dropped; give the parameter a name and use it, or //outbox:allow outboxpayload REASON`

//outbox:allow outboxpayload the old rows held test data
//
//outbox:upcast Raised from=8
func from8(_ raisedV1) (r Raised, err error) { return r, err }

func from9(raisedV1) (r Raised, err error) { return r, err }

//outbox:upcast Raised from=10
func from10(map[string]any) (r Raised, err error) { return r, err }

//outbox:upcast Raised from=11
func from11(struct{}) (r Raised, err error) { return r, err }

//outbox:event payload.ordered version=2
type OrderCreated struct{ OrderID string }

type orderCreatedV1 struct{ OrderID, Note string }

//outbox:upcast OrderCreated from=1
func orderCreatedFromV1(old orderCreatedV1) (OrderCreated, error) { // want `orderCreatedFromV1 never reads old.Note: its value in rows of version 1 would be dropped; use it, or say so with _ = old.Note`
	return OrderCreated{OrderID: old.OrderID}, nil
}
