package gen

import (
	"fmt"
	"go/ast"
)

const (
	outboxPath  = "github.com/typedoutbox/typedoutbox/outbox"
	handlerType = "OutboxHandler"
	handleFunc  = "HandleOutbox"
	skipPrefix  = "Skip"
)

// handled returns the events that the handler interface promises: the exported
// ones, since a method that is not would make it impossible to implement
// elsewhere.
func (u *unit) handled() []*event {
	if u.handlersOff {
		return nil
	}
	var out []*event
	for _, e := range u.events {
		if ast.IsExported(e.typeName()) {
			out = append(out, e)
		}
	}
	return out
}

// handlerNames are the identifiers that come with the handler interface, and
// what each is.
func (u *unit) handlerNames() map[string]string {
	events := u.handled()
	if len(events) == 0 {
		return map[string]string{}
	}
	names := map[string]string{handlerType: "an interface", handleFunc: "a function"}
	for _, e := range events {
		names[skipPrefix+e.typeName()] = "a type"
	}
	return names
}

// handlers writes the interface that promises to handle every event, how to
// register one, and how to leave an event out.
func (w *writer) handlers(u *unit) {
	events := u.handled()
	if len(events) == 0 {
		return
	}
	w.bases[outboxPath], w.bases["context"], w.bases["fmt"] = "outbox", "context", "fmt"
	outbox, context, fmtName := marked(outboxPath), marked("context"), marked("fmt")
	local := func(name string) string {
		for u.taken[name].IsValid() || u.isIdent(name) {
			name += "_"
		}
		return name
	}
	mux, h, opts, skipped := local("mux"), local("h"), local("opts"), local("skipped")

	w.printf("\n// %s handles every event of this package. It grows with each event, so that\n"+
		"// who promises them all does not compile until the new one is handled, or\n// skipped by embedding its Skip type.\n", handlerType)
	w.printf("type %s interface {\n", handlerType)
	for _, e := range events {
		w.printf("Handle%s(%s.Context, %s.Delivery[%s]) error\n", e.typeName(), context, outbox, e.typeName())
	}
	w.printf("}\n")

	w.printf("\n// %s registers %s for every event of this package but those that it skips.\n", handleFunc, h)
	w.printf("func %s(%s *%s.Mux, %s %s, %s ...%s.HandleOption) {\n", handleFunc, mux, outbox, h, handlerType, opts, outbox)
	for _, e := range events {
		w.printf("if _, %s := %s.(interface{ skips%s() }); %s {\n%s.Skip(%s.Info())\n} else {\n%s.Handle(%s, %s, %s.Handle%s, %s...)\n}\n",
			skipped, h, e.typeName(), skipped, mux, e.ident, outbox, mux, e.ident, h, e.typeName(), opts)
	}
	w.printf("}\n")

	for _, e := range events {
		skip := skipPrefix + e.typeName()
		w.printf("\n// %s, embedded in an %s, leaves %s to another program.\n", skip, handlerType, e.typeName())
		w.printf("type %s struct{}\n", skip)
		w.printf("\n// Handle%s is not registered, unless the handler that skips %s is wrapped in another.\n", e.typeName(), e.typeName())
		w.printf("func (%s) Handle%s(%s.Context, %s.Delivery[%s]) error {\nreturn %s.Unavailable(%s.Errorf(%q, %s.ErrNoHandler))\n}\n",
			skip, e.typeName(), context, outbox, e.typeName(), outbox, fmtName, u.wrapped(e), outbox)
		w.printf("\nfunc (%s) skips%s() {}\n", skip, e.typeName())
	}
}

// wrapped is the format of the error of a Skip type's handler. It is called only
// where HandleOutbox could not see the mark of the Skip type, as in a struct that
// embeds the interface: that has the methods of the interface and no others.
func (u *unit) wrapped(e *event) string {
	skip := skipPrefix + e.typeName()
	if u.pkg.Name != "main" {
		skip = u.pkg.Name + "." + skip
	}
	return fmt.Sprintf("%%w %q: it is skipped by a handler that is wrapped in another, and %s sees only the outer one; "+
		"give it struct{ OUTER; %s }, OUTER being the type of the outer one, without a method Handle%s of its own", e.Name.Text, handleFunc, skip, e.typeName())
}

// isIdent reports whether a generated variable has this name.
func (u *unit) isIdent(name string) bool {
	for _, e := range u.events {
		if e.ident == name {
			return true
		}
	}
	return false
}
