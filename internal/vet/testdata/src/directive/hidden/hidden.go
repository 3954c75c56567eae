package hidden

import "directive/skipped/events"

type service struct{ events.SkipMade }

type full struct{}

func (full) HandleMade() error { return nil }

type traced struct{ events.OutboxHandler }

type deeper struct{ *traced }

type handles struct{ events.OutboxHandler }

func (*handles) HandleMade() error { return nil }

// outer skips what is within in a way that is seen.
type outer struct {
	traced
	events.SkipMade
}

type holds struct {
	full
	inner events.OutboxHandler
}

func trace(h events.OutboxHandler) events.OutboxHandler { return traced{h} }

func newService() service { return service{} }

func newHandler() events.OutboxHandler { return service{} }

func register(h events.OutboxHandler, t *traced) {
	events.HandleOutbox(service{})
	events.HandleOutbox(full{})
	events.HandleOutbox(traced{full{}})
	events.HandleOutbox(&traced{OutboxHandler: full{}})
	events.HandleOutbox(&handles{service{}})
	events.HandleOutbox(outer{traced: traced{service{}}})
	events.HandleOutbox(&holds{inner: service{}})
	events.HandleOutbox(trace(full{}))
	events.HandleOutbox(newHandler())
	events.HandleOutbox(newService())
	events.HandleOutbox(h)

	events.HandleOutbox(traced{service{}})                 // want `HandleOutbox does not see what is skipped by a handler within another, such as Made here; give it struct{ OUTER; events.SkipMade }, OUTER being the type of the outer one, without a method HandleMade of its own`
	events.HandleOutbox(&traced{OutboxHandler: service{}}) // want `does not see`
	events.HandleOutbox(deeper{&traced{service{}}})        // want `does not see`
	events.HandleOutbox(traced{h})                         // want `does not see`
	events.HandleOutbox(t)                                 // want `does not see`
	events.HandleOutbox(trace(service{}))                  // want `does not see`
	events.HandleOutbox(trace(newService()))               // want `does not see`

	//outbox:allow outboxdirective nothing is skipped within
	events.HandleOutbox(t)
}
