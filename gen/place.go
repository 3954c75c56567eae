package gen

import (
	"go/ast"
	"go/token"
)

// place says where in a file a comment stands.
type place struct {
	what  string        // "the doc comment of a constant", for messages
	spec  *ast.TypeSpec // set in the doc comment of a type at package level, and behind it
	field *ast.Field    // set on a field, in its doc comment or behind it
	fn    *ast.FuncDecl // set in the doc comment of a function
	loc   locus
}

// locus tells apart the places that allow different directives.
type locus int

const (
	detached locus = iota // at package level, belonging to nothing
	onType
	onFunc
	onGroup
	onPackage
	trailing
	onOther  // the doc comment of something else
	onField  // of a struct, interface or parameter list
	inFunc   // anywhere within a function's body
	inSource // within another declaration
)

// places maps the comments of a file to where they stand.
type places struct {
	fset  *token.FileSet
	file  *ast.File
	known map[*ast.Comment]place
}

func findPlaces(fset *token.FileSet, f *ast.File) *places {
	ps := &places{fset: fset, file: f, known: map[*ast.Comment]place{}}
	ps.claim(f.Doc, place{loc: onPackage, what: "the package clause"})
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			ps.claim(decl.Doc, place{loc: onFunc, fn: decl, what: "the function " + decl.Name.Name})
		case *ast.GenDecl:
			ps.genDecl(decl)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok {
			at := place{loc: onField, field: field, what: "a field"}
			ps.claim(field.Doc, at)
			ps.claim(field.Comment, at)
		}
		return true
	})
	return ps
}

// claim records the comments of a group, unless the group is known.
func (ps *places) claim(group *ast.CommentGroup, at place) {
	if group == nil {
		return
	}
	for _, c := range group.List {
		if _, ok := ps.known[c]; !ok {
			ps.known[c] = at
		}
	}
}

func (ps *places) genDecl(decl *ast.GenDecl) {
	what := map[token.Token]string{
		token.IMPORT: "an import", token.CONST: "a constant", token.VAR: "a variable", token.TYPE: "a type",
	}[decl.Tok]
	grouped := decl.Lparen.IsValid()
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			at := place{loc: onType, spec: spec, what: "the type " + spec.Name.Name}
			if !grouped {
				ps.claim(decl.Doc, at)
			}
			ps.claim(spec.Doc, at)
			ps.claim(spec.Comment, place{loc: trailing, spec: spec, what: "a type"})
		case *ast.ValueSpec:
			ps.claim(spec.Doc, place{loc: onOther, what: what})
			ps.claim(spec.Comment, place{loc: trailing, what: what})
		case *ast.ImportSpec:
			ps.claim(spec.Doc, place{loc: onOther, what: what})
			ps.claim(spec.Comment, place{loc: trailing, what: what})
		}
	}
	if grouped && decl.Tok == token.TYPE {
		ps.claim(decl.Doc, place{loc: onGroup, what: "a group of types"})
	}
	ps.claim(decl.Doc, place{loc: onOther, what: what})
}

// of returns where the comment stands.
func (ps *places) of(c *ast.Comment) place {
	if at, ok := ps.known[c]; ok {
		return at
	}
	for _, decl := range ps.file.Decls {
		if c.Pos() >= decl.End() && ps.line(c.Pos()) == ps.line(decl.End()) {
			return place{loc: trailing, what: "a declaration"}
		}
		if c.Pos() < decl.Pos() || c.Pos() >= decl.End() {
			continue
		}
		if fn, ok := decl.(*ast.FuncDecl); ok {
			return place{loc: inFunc, what: "the function " + fn.Name.Name}
		}
		return place{loc: inSource, what: "a declaration"}
	}
	return place{loc: detached, what: "nothing"}
}

func (ps *places) line(pos token.Pos) int { return ps.fset.PositionFor(pos, false).Line }
