package outboxhandler

import (
	"cmp"
	"fmt"
	"path"
	"slices"
)

// program is the fact of a package: what it and all that it imports say of
// topics. Each package repeats what its imports say, since under go vet only the
// facts of direct imports are there. It is sorted, so that equal facts are equal
// bytes.
type program struct {
	Topics  []topic
	Handled []string // ids of topics, which may be declared further up
	Relays  bool     // a relay is started
	Unsure  bool     // one delivers what cannot be told
}

// topic is a variable that topics.New made.
type topic struct {
	Package  string // the path
	Var      string
	Name     string // as stored
	Promised bool   // HandleOutbox of the package registers it, or skips it
}

func (*program) AFact() {}

func (p *program) String() string {
	return fmt.Sprintf("%d topics, %d handled", len(p.Topics), len(p.Handled))
}

func (t topic) id() string { return t.Package + "." + t.Var }

// spell names the variable as other packages mostly do.
func (t topic) spell() string { return path.Base(t.Package) + "." + t.Var }

// add takes over what another package says.
func (p *program) add(other program) {
	p.Topics = append(p.Topics, other.Topics...)
	p.Handled = append(p.Handled, other.Handled...)
	p.Relays = p.Relays || other.Relays
	p.Unsure = p.Unsure || other.Unsure
	p.sort()
}

func (p *program) sort() {
	slices.SortFunc(p.Topics, func(a, b topic) int { return cmp.Compare(a.id(), b.id()) })
	p.Topics = slices.Compact(p.Topics)
	slices.Sort(p.Handled)
	p.Handled = slices.Compact(p.Handled)
}

func (p *program) unhandled() []topic {
	return slices.DeleteFunc(slices.Clone(p.Topics), func(t topic) bool { return slices.Contains(p.Handled, t.id()) })
}

// handlePackage marks the topics that a package declares, or those that its
// HandleOutbox promises.
func (p *program) handlePackage(pkg string, promised bool) {
	for _, t := range p.Topics {
		if t.Package == pkg && (t.Promised || !promised) {
			p.Handled = append(p.Handled, t.id())
		}
	}
}
