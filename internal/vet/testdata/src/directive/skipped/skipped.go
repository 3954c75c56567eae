package skipped

import "directive/skipped/events"

type Own struct{ events.SkipMade }

func (*Own) HandleMade() error { return nil } // want `HandleMade of Own is never called, since Own embeds events.SkipMade; remove one of the two`

type OnlySkips struct{ *events.SkipMade }

type Handler struct{}

func (Handler) HandleMade() error { return nil }

type Base struct{ events.SkipMade }

type Hidden struct { // want `HandleMade of Hidden is never called, since Hidden embeds events.SkipMade`
	*Handler
	Base
}

// Both does not fit the interface, so that nobody is misled.
type Both struct {
	Handler
	events.SkipMade
}

type Named struct {
	Handler
	Skip events.SkipMade
}

type Generic[T any] struct{ events.SkipMade }

func (g Generic[T]) HandleMade() error { return nil } // want `HandleMade of Generic is never called`

func register() {
	events.HandleOutbox(struct{ events.SkipMade }{})
	events.HandleOutbox(struct { // want `HandleMade of this struct is never called, since this struct embeds events.SkipMade`
		Handler
		Base
	}{})
}

type Alias = Own

// SkipMade looks like a generated type and says nothing of skipping.
type SkipMade struct{}

func (SkipMade) HandleMade() error { return nil }

type Mine struct{ SkipMade }

func (Mine) HandleMade() error { return nil }

// Leaves says of itself, and not of a generated type, that it skips.
type Leaves struct{}

func (Leaves) HandleMade() error { return nil }

func (Leaves) skipsMade() {}

type Left struct{ Leaves }

func (Left) HandleMade() error { return nil }
