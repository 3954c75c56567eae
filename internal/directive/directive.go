// Package directive reads the comments that annotate events, such as
//
//	//outbox:event orders.created version=2 key=OrderID
//
// It knows their syntax and nothing of the code around them: whether a comment
// stands where it may, and whether the names in it exist, is for the caller to
// say. A comment that only resembles a directive, and that Go tools would pass
// over without a word, is reported too.
package directive

import (
	"go/ast"
	"go/token"
)

// The verbs of the directives.
const (
	VerbEvent   = "event"   // on a struct type: it is an event
	VerbUpcast  = "upcast"  // on a function: it raises old payloads
	VerbRetired = "retired" // anywhere: an event is gone for good
	VerbPackage = "package" // anywhere: settings of the package
	VerbAllow   = "allow"   // anywhere: a rule does not apply here
)

const tool = "outbox"

// Directive is one comment that was understood. The field that its verb names
// is set, the others are nil.
type Directive struct {
	Verb    string
	Pos     token.Pos
	Event   *Event
	Upcast  *Upcast
	Retired *Retired
	Package *Package
	Allow   *Allow
}

// Word is a piece of a directive and where it stands.
type Word struct {
	Text string
	Pos  token.Pos
}

// Number is a number of a directive and where it stands.
type Number struct {
	N   int
	Pos token.Pos
}

// Event is what //outbox:event says. What it leaves out is zero, but for the
// version, which is then 1.
type Event struct {
	Name     Word
	Version  Number
	Key      *Key
	Order    *Key
	Aliases  []Word
	Reserved []Word
	Compat   Word
	Var      Word
}

// Scope returns the default scope of keys: the first name that the topic
// had, so that a renamed topic keeps its keys.
func (e *Event) Scope() string {
	if n := len(e.Aliases); n > 0 {
		return e.Aliases[n-1].Text
	}
	return e.Name.Text
}

// Key is the value of key= or order=. Fields are paths of identifiers, such as
// Customer.ID. Scope is zero if the default applies.
type Key struct {
	Scope  Word
	Fields []Word
}

// Upcast is what //outbox:upcast says.
type Upcast struct {
	Type Word
	From Number
}

// Retired is what //outbox:retired says.
type Retired struct {
	Name   Word
	Reason string
}

// Package is what //outbox:package says.
type Package struct {
	Handlers Word
}

// Allow is what //outbox:allow says.
type Allow struct {
	Rule   Word
	Reason string
}

// Problem is something wrong with a directive. Its text says what, then what
// to do.
type Problem struct {
	Pos  token.Pos
	Text string
}

// Parse reads one comment. It returns nil and no problem for a comment that is
// none of ours, nil and a problem for one that resembles a directive or has an
// unknown verb, and otherwise the directive, complete if there is no problem.
func Parse(c *ast.Comment) (*Directive, []Problem) {
	d, ok := ast.ParseDirective(c.Slash, c.Text)
	if !ok || d.Tool != tool {
		return nil, resemblance(c)
	}
	p := &parser{text: c.Text, slash: c.Slash, verb: d.Name}
	out := &Directive{Verb: d.Name, Pos: c.Slash}
	switch d.Name {
	case VerbEvent:
		out.Event = p.event(d)
	case VerbUpcast:
		out.Upcast = p.upcast(d)
	case VerbRetired:
		out.Retired = p.retired(d)
	case VerbPackage:
		out.Package = p.pkg(d)
	case VerbAllow:
		out.Allow = p.allow(d)
	default:
		p.addf(c.Slash, "unknown directive //outbox:%s; %s", d.Name, choose(d.Name, verbs()))
		return nil, p.problems
	}
	return out, p.problems
}

func verbs() []string {
	return []string{VerbEvent, VerbUpcast, VerbRetired, VerbPackage, VerbAllow}
}
