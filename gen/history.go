package gen

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/typedoutbox/typedoutbox/internal/directive"
	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// history is the lock of a package: as it is on disk, and as it is to be.
type history struct {
	*unit
	path    string // empty if the package can have none
	data    []byte // on disk, nil if there is none
	broken  bool   // it cannot be read
	partial bool   // an event was passed over, since something else is wrong with it
	old     lock.File
	next    lock.File
	notes   []string
}

// openLock reads the lock. Those of dependencies are their authors' business.
func openLock(u *unit) *history {
	h := &history{unit: u}
	if u.dir() == "" || u.pkg.Module != nil && !u.pkg.Module.Main {
		return h
	}
	h.path = filepath.Join(u.dir(), lock.Name)
	data, ok := u.report.read(h.path)
	h.data, h.broken = data, !ok
	if data == nil {
		h.broken = h.broken || h.lost()
		return h
	}
	old, err := lock.Parse(data)
	if err != nil {
		h.broken = true
		at := "1:1"
		if bad := (*lock.ParseError)(nil); errors.As(err, &bad) {
			at, err = fmt.Sprintf("%d:%d", bad.Line, bad.Column), errors.New(bad.Text)
		}
		u.report.addAt(h.path+":"+at, "%v", err)
		return h
	}
	h.old = *old
	return h
}

// lost reports a lock that is not there although generated code is, which is
// written after it. Without the lock a new history would begin, and stored rows
// would be forgotten without a word.
func (h *history) lost() bool {
	code, ok := h.report.read(h.output())
	if !ok || len(h.events) == 0 || !declaresTopics(code) {
		return false
	}
	h.report.addAt(h.path, "the file is missing, though %s was generated with one: stored rows would not be checked against it; "+
		"restore it from version control (git checkout -- %s), or, if no rows were ever stored, delete %s too",
		outputName, h.report.rel(h.path), outputName)
	return true
}

// check compares the events with what the lock has of them, and makes the lock
// that is to be.
func (h *history) check() {
	if h.path == "" || h.broken {
		return
	}
	h.recognize()
	for _, e := range h.events {
		if e.broken || e.lossy {
			h.partial = true
			continue
		}
		h.record(e)
	}
	h.retire()
	h.checkAllows()
}

// record adds an event to the lock that is to be.
func (h *history) record(e *event) {
	if e.past != nil && e.Version.N < e.past.Version {
		h.partial = true
		h.report.addf(e.Version.Pos, "J56 version of %q lowered from %d to %d: stored rows of version %d would fail to decode; set version=%d",
			e.Name.Text, e.past.Version, e.Version.N, e.past.Version, e.past.Version)
		return
	}
	next := lock.Event{
		Topic: e.Name.Text, Type: e.typeName(), Aliases: e.former(),
		Key: e.key.String(), Order: e.order.String(), Version: e.Version.N,
	}
	for n := 1; n < e.Version.N; n++ {
		next.Versions = append(next.Versions, h.former(e, n))
	}
	current := h.current(e)
	if e.past != nil {
		current.Accepted = append(current.Accepted, h.checkTopic(e)...)
	}
	next.Versions = append(next.Versions, current)
	h.next.Events = append(h.next.Events, next)
}

// file returns the lock as an output, ok being false if there is none and should
// be none.
func (h *history) file() (f File, ok bool) {
	if h.path == "" || h.data == nil && len(h.next.Events) == 0 && len(h.next.Retired) == 0 {
		return File{}, false
	}
	return File{Path: h.path, Old: h.data, New: h.next.Format(), Notes: h.notes}, true
}

// of returns where the lock has a topic.
func (h *history) of(topic string) string {
	i := max(bytes.Index(h.data, fmt.Appendf(nil, `"topic": %q`, topic)), 0)
	before := h.data[:i]
	return fmt.Sprintf("%s:%d:%d", h.path, bytes.Count(before, []byte("\n"))+1, i-bytes.LastIndexByte(before, '\n'))
}

// names returns the name of an event and its former ones.
func (e *event) names() []directive.Word {
	return append([]directive.Word{e.Name}, e.Aliases...)
}

// former returns the former names of an event.
func (e *event) former() (names []string) {
	for _, alias := range e.Aliases {
		names = append(names, alias.Text)
	}
	return names
}

// has reports whether a topic name is that of the event, or was.
func (e *event) has(name string) bool {
	return slices.ContainsFunc(e.names(), func(w directive.Word) bool { return w.Text == name })
}
