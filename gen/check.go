package gen

import (
	"go/token"
	"path/filepath"

	"golang.org/x/tools/go/packages"
)

// Check reports what Generate would say of the directives in a package that is
// loaded already, and of the payloads that they lead to, in the same words. It
// is for analyzers: it reads no file, and leaves out what one cannot see, which
// is other packages, the names in generated code, and the lock.
//
// pkg needs PkgPath, Name, Fset, Types, TypesInfo, TypeErrors, and as Syntax
// the files with their comments. Files of the package that the build leaves out
// may be among them. Positions within a text name the file without its directory.
func Check(pkg *packages.Package, directives, payloads func(pos token.Pos, text string)) {
	if len(pkg.Syntax) == 0 {
		return
	}
	r := newReport(filepath.Dir(pkg.Fset.Position(pkg.Syntax[0].Package).Filename), pkg.Fset)
	r.sink = directives
	u := newUnit(r, pkg)
	u.payloads = r.another()
	u.payloads.sink = payloads
	for _, f := range pkg.Syntax {
		path := r.fset.PositionFor(f.Package, false).Filename
		switch why := constraintOf(f, path); {
		case r.fset.Position(f.Package).Filename != path:
			// What cgo made of a file.
		case why != "":
			u.outside(f, why)
		default:
			u.scan(f)
		}
	}
	for _, e := range u.events {
		u.checkEvent(e)
	}
	u.checkUpcasts()
	r.checkUnique([]*unit{u})
}
