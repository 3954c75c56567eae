package gen

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"

	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// versionOf returns what the lock has of a version, or nil.
func versionOf(past *lock.Event, n int) *lock.Version {
	if past != nil {
		for i := range past.Versions {
			if past.Versions[i].N == n {
				return &past.Versions[i]
			}
		}
	}
	return nil
}

// current compares an event with what the lock has of its version, and returns
// what it is to have.
func (h *history) current(e *event) lock.Version {
	now := lock.Version{N: e.Version.N, Shape: lock.ShapeOf(h.pkg.Types, e.obj.Type())}
	for _, w := range e.Reserved {
		now.Reserved = append(now.Reserved, w.Text)
	}
	was := versionOf(e.past, now.N)
	if was == nil {
		h.checkReserved(e, now, nil)
		return now
	}
	now.Accepted = slices.Clone(was.Accepted)
	for _, path := range was.Reserved {
		if !slices.Contains(now.Reserved, path) {
			now.Reserved = append(now.Reserved, path)
		}
	}
	differences := lock.Diff(was.Shape, now.Shape)
	h.checkReserved(e, now, differences)
	for _, d := range differences {
		verdict := lock.Judge(d, now.Reserved)
		way := h.way(e, now.Shape, d)
		pos := way[len(way)-1]
		if !verdict.Refused(e.Compat.Text == "backward") {
			if verdict.Note {
				h.notes = append(h.notes, fmt.Sprintf("%s: %s %s", h.report.at(pos), verdict.Rule, verdict.Text))
			}
			continue
		}
		if a := h.allowing(e, verdict.Rule, way); a != nil {
			now.Accepted = append(now.Accepted, lock.Accepted{Rule: verdict.Rule, Path: d.Path, Reason: a.Allow.Reason})
			continue
		}
		h.report.addf(pos, "%s %s; %s, or set version=%d and write //outbox:upcast %s from=%d%s",
			verdict.Rule, verdict.Text, verdict.Keep, now.N+1, e.typeName(), now.N, h.ways(e, d, verdict, way))
	}
	now.Shape = lock.Merge(was.Shape, now.Shape)
	return now
}

// ways lists how else a refused change can be made.
func (h *history) ways(e *event, d lock.Difference, v lock.Verdict, way []token.Pos) string {
	const together = "compat=backward if old and new relays never run at a time"
	text := ""
	switch {
	case v.Rule == "J04" && e.Compat.Text == "backward":
		text = ", or reserve its key with reserved=" + d.Path
	case v.Rule == "J04":
		text = ", or add reserved=" + d.Path + " and " + together
	case !v.Refused(true):
		text = ", or add " + together
	}
	if neverAllowed(v.Rule) {
		return text
	}
	return text + ", or " + h.writeAllow(v.Rule, way)
}

// checkReserved reports reserved keys that the payload has. One that is added
// again has a verdict.
func (h *history) checkReserved(e *event, now lock.Version, differences []lock.Difference) {
	for _, f := range now.Shape {
		isAdded := func(d lock.Difference) bool { return d.Path == f.Path && d.Change == lock.Added }
		if slices.Contains(now.Reserved, f.Path) && !slices.ContainsFunc(differences, isAdded) {
			h.report.addf(f.Pos, "J08 field %q is reserved and yet there: stored rows may hold something else under its name; remove the field, or its name from reserved=",
				f.Path)
		}
	}
}

// former returns what the lock is to have of a version below the current one:
// what it has, which the upcast must be able to read, or else what the upcast
// takes.
func (h *history) former(e *event, n int) lock.Version {
	was := versionOf(e.past, n)
	step := e.steps[n]
	if step == nil || step.from == nil || step.lossy { // which is reported
		h.partial = true
		return lock.Version{N: n}
	}
	now := lock.ShapeOf(h.pkg.Types, step.from)
	if was == nil {
		return lock.Version{N: n, Shape: now}
	}
	kept := *was
	kept.Accepted = slices.Clone(was.Accepted)
	for _, d := range lock.Diff(was.Shape, now) {
		if d.Change == lock.Removed {
			h.unread(e, step, d, &kept)
			continue
		}
		verdict := lock.Judge(d, nil)
		if !verdict.Refused(true) || verdict.Backward == lock.Unknown { // methods were copied under another name, mostly
			continue
		}
		pos := step.fn.Name.Pos()
		if d.New.Pos.IsValid() {
			pos = d.New.Pos
		}
		remedy := "give it the field"
		if verdict.Rule == "J06" && d.Change == lock.Renamed {
			remedy = "put back " + d.Old.Tag()
		}
		h.report.addf(pos, "%s %s; %s reads the rows of version %d, so %s as %s has it there",
			verdict.Rule, verdict.Text, step.name(), n, remedy, lock.Name)
	}
	return kept
}

// unread reports a value in rows of an old version that the type which an upcast
// takes does not have, unless the lock says that it may be lost.
func (h *history) unread(e *event, step *upcast, d lock.Difference, kept *lock.Version) {
	const rule = "J58"
	if slices.ContainsFunc(kept.Accepted, func(a lock.Accepted) bool { return a.Rule == rule && a.Path == d.Path }) {
		return
	}
	pos, more := step.fn.Name.Pos(), ""
	if named, ok := types.Unalias(step.from).(*types.Named); ok && named.Obj().Pkg() == h.pkg.Types {
		pos = named.Obj().Pos()
		way := []token.Pos{pos}
		if a := h.allowing(e, rule, way); a != nil {
			kept.Accepted = append(kept.Accepted, lock.Accepted{Rule: rule, Path: d.Path, Reason: a.Allow.Reason})
			return
		}
		more = ", or, if nobody needs it, " + h.writeAllow(rule, way)
	}
	h.report.addf(pos, "J58 field %q is missing from what %s takes: its value in rows of version %d would be dropped without an error; put back %s as %s has it%s",
		d.Path, step.name(), kept.N, d.Old.Tag(), lock.Name, more)
}
