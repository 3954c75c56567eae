// Package lock keeps what the payloads of a package's topics have looked like,
// and judges what a change of a type would do to the rows that are stored.
//
// A [File] is the history: every version of every event as a [Shape], the
// values that its JSON is made of. [ShapeOf] takes the shape of a Go type,
// [Diff] says what differs between two, and [Judge] what comes of it. It works
// on go/types and nothing else.
package lock

import (
	"cmp"
	"slices"
)

// Name is that of the file, beside the generated code.
const Name = "outbox.lock.json"

// File is the history of a package.
type File struct {
	Events  []Event
	Retired []Retired
}

// Event is a topic.
type Event struct {
	Topic    string
	Type     string // its Go name
	Aliases  []string
	Key      string // SCOPE#FIELD,FIELD or empty
	Order    string // as Key
	Version  int    // the current one
	Versions []Version
}

// Version is a version of an event. Rows of each may be stored.
type Version struct {
	N        int
	Reserved []string // paths that are not used again
	Accepted []Accepted
	Shape    Shape
}

// Accepted is a change that a rule refuses and the author let through.
type Accepted struct {
	Rule, Path, Reason string
}

// Retired is a topic that is no more. Its name is not used again.
type Retired struct {
	Topic, Reason string
}

// sort puts everything in the order of the file.
func (f *File) sort() {
	slices.SortFunc(f.Events, func(a, b Event) int { return cmp.Compare(a.Topic, b.Topic) })
	slices.SortFunc(f.Retired, func(a, b Retired) int { return cmp.Compare(a.Topic, b.Topic) })
	for _, e := range f.Events {
		slices.Sort(e.Aliases)
		slices.SortFunc(e.Versions, func(a, b Version) int { return cmp.Compare(a.N, b.N) })
		for _, v := range e.Versions {
			slices.Sort(v.Reserved)
			slices.SortFunc(v.Accepted, func(a, b Accepted) int {
				return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Reason, b.Reason))
			})
			v.Shape.sort()
		}
	}
}
