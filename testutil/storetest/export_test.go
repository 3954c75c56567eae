package storetest

import (
	"testing"

	"github.com/uptrace/bun"
)

// Names returns the names of the subtests.
func Names() []string {
	var names []string
	for _, g := range guarantees {
		names = append(names, g.name)
	}
	return names
}

// RunOne runs one subtest.
func RunOne(t testing.TB, name string, open func(t testing.TB) *bun.DB) {
	for _, g := range guarantees {
		if g.name == name {
			g.run(t, open)
			return
		}
	}
	t.Fatalf("no subtest %q", name)
}
