package gen

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/packages"

	"github.com/typedoutbox/typedoutbox/internal/directive"
	"github.com/typedoutbox/typedoutbox/internal/lock"
	"github.com/typedoutbox/typedoutbox/internal/payload"
)

// unit is one package under generation.
type unit struct {
	report      *report
	payloads    *report // takes what checkPayload finds
	pkg         *packages.Package
	events      []*event
	upcasts     []*upcast
	strays      []string // what reported upcasts, which are no steps, say of their event's type
	allows      []*allow
	retired     []*directive.Directive
	unclear     bool            // what the directives say
	doubted     map[string]bool // types that may be events, but for a directive without effect
	lock        *history
	files       []File
	settings    token.Pos                // of //outbox:package
	handlersOff bool                     // what it says
	taken       map[string]token.Pos     // names at package level
	imported    map[string]token.Pos     // names of imports in the package's files
	told        map[payload.Problem]bool // without the path
}

// event is a type with an event directive.
type event struct {
	*directive.Event
	pos    token.Pos // of the directive
	spec   *ast.TypeSpec
	obj    types.Object // nil if the type checker did not see it
	broken bool         // a problem is reported already
	lossy  bool         // its payload loses something as JSON
	ident  string       // of the generated variable
	key    *keyFunc     // nil if there is none
	order  *keyFunc
	steps  map[int]*upcast
	strays int         // upcasts that are reported, and are no steps
	past   *lock.Event // what the lock has of it, nil if it is new
}

func newUnit(r *report, pkg *packages.Package) *unit {
	return &unit{
		report: r, payloads: r, pkg: pkg, doubted: map[string]bool{},
		taken: map[string]token.Pos{}, imported: map[string]token.Pos{}, told: map[payload.Problem]bool{},
	}
}

// read finds the directives in all files of the package's directory.
func (u *unit) read() {
	before := len(u.report.found)
	u.report.loadProblems(u.pkg)
	for _, f := range u.pkg.Syntax {
		path := u.report.fset.PositionFor(f.Package, false).Filename
		switch {
		case isOutput(path) && f.Name != nil && len(f.Decls) == 0:
			// Our output, of which only the package clause is read.
		case !u.compiled(path):
			// What cgo made of a file; the file itself is among the outside ones.
		case f.Name.Name != u.pkg.Name:
			if holdsDirective(path) {
				u.report.addf(f.Package, "package %s, but other files here are of package %s; make them one", f.Name.Name, u.pkg.Name)
			}
		default:
			if why := constraintOf(f, path); why != "" {
				u.outside(f, why)
			} else {
				u.scan(f)
			}
		}
	}
	u.readSiblings()
	u.unclear = len(u.report.found) > before
}

// compiled reports whether path is a source file of the package and not the
// work of cgo.
func (u *unit) compiled(path string) bool {
	return slices.Contains(u.pkg.GoFiles, path)
}

// check resolves the events and their upcasts.
func (u *unit) check() {
	if len(u.events) > 0 {
		u.checkHome()
	}
	for _, e := range u.events {
		u.checkEvent(e)
	}
	u.checkUpcasts()
	if len(u.events) > 0 && !u.foreign() {
		u.checkNames()
	}
}

// foreign reports an output that is not ours to overwrite.
func (u *unit) foreign() bool {
	content, ok := u.report.read(u.output())
	if !ok || replaceable(content) {
		return false
	}
	u.report.addAt(u.output()+":1:1", "this file was not written by outboxgen, which would replace it; rename it, or delete it")
	return true
}

// checkHome reports events where no file can be written.
func (u *unit) checkHome() {
	first := u.events[0]
	if m := u.pkg.Module; m != nil && !m.Main {
		u.report.addf(first.pos, "module %s is a dependency, where nothing is generated; leave its packages out", m.Path)
	}
	if u.pkg.PkgPath == topicsPath {
		u.report.addf(first.pos, "package topics cannot import itself; declare events elsewhere")
	}
}

func (u *unit) addEvent(d *directive.Directive, spec *ast.TypeSpec, broken bool) {
	for _, e := range u.events {
		if e.spec == spec {
			u.report.addf(d.Pos, "%s has a second //outbox:event, the first is at %s; keep one, and name former names with alias=",
				spec.Name.Name, u.report.at(e.pos))
			return
		}
	}
	e := &event{Event: d.Event, pos: d.Pos, spec: spec, broken: broken}
	if u.pkg.TypesInfo != nil {
		e.obj = u.pkg.TypesInfo.Defs[spec.Name]
	}
	e.ident = spec.Name.Name + "Topic"
	if e.Var.Text != "" {
		e.ident = e.Var.Text
	}
	u.events = append(u.events, e)
}

// typeName is the name of the event's type.
func (e *event) typeName() string { return e.spec.Name.Name }

func (u *unit) dir() string {
	if u.pkg.Dir != "" || len(u.pkg.GoFiles) == 0 {
		return u.pkg.Dir
	}
	return filepath.Dir(u.pkg.GoFiles[0])
}

func (u *unit) output() string { return filepath.Join(u.dir(), outputName) }

// spell prints a type for a message.
func (u *unit) spell(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p.Path() == u.pkg.PkgPath {
			return ""
		}
		return p.Name()
	})
}
