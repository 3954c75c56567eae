package outboxpayload

import (
	"go/ast"
	"go/types"
	"reflect"

	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/directive"
	"github.com/typedoutbox/typedoutbox/internal/vet"
)

// checkUpcasts reports fields of old rows that an upcast does not read, so that
// their values are dropped without a word.
func checkUpcasts(pass *analysis.Pass) {
	for _, f := range pass.Files {
		if vet.InTest(pass, f.Package) {
			continue
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil || fn.Recv != nil {
				continue
			}
			if up := upcastOf(fn); up != nil {
				checkUpcast(pass, fn, up)
			}
		}
	}
}

// upcastOf returns the directive of an upcast, nil if there is none.
func upcastOf(fn *ast.FuncDecl) *directive.Upcast {
	if fn.Doc == nil {
		return nil
	}
	for _, c := range fn.Doc.List {
		if d, problems := directive.Parse(c); d != nil && d.Upcast != nil && len(problems) == 0 {
			return d.Upcast
		}
	}
	return nil
}

func checkUpcast(pass *analysis.Pass, fn *ast.FuncDecl, up *directive.Upcast) {
	obj, ok := pass.TypesInfo.Defs[fn.Name].(*types.Func)
	if !ok || obj.Signature().Params().Len() != 1 {
		return
	}
	old := obj.Signature().Params().At(0)
	fields := stored(old.Type())
	if len(fields) == 0 {
		return
	}
	if old.Name() == "" || old.Name() == "_" {
		pass.Reportf(fn.Name.Pos(), "%s reads nothing of what it takes: all values in rows of version %d would be dropped; "+
			"give the parameter a name and use it, or //outbox:allow outboxpayload REASON", fn.Name.Name, up.From.N)
		return
	}
	read, whole := reads(pass.TypesInfo, fn.Body, old)
	if whole {
		return
	}
	for _, f := range fields {
		if !read[f] {
			pass.Reportf(fn.Name.Pos(), "%s never reads %s.%s: its value in rows of version %d would be dropped; use it, or say so with _ = %s.%s",
				fn.Name.Name, old.Name(), f.Name(), up.From.N, old.Name(), f.Name())
		}
	}
}

// stored returns the fields of a struct that come from a row, none if t is no
// struct.
func stored(t types.Type) (fields []*types.Var) {
	st := structOf(t)
	if st == nil {
		return nil
	}
	for i := range st.NumFields() {
		f := st.Field(i)
		if (f.Exported() || f.Embedded()) && !omitted(st.Tag(i)) {
			fields = append(fields, f)
		}
	}
	return fields
}

// reads returns the fields of a variable that body names, and whether it uses the
// variable as a whole: converts it, passes it on or calls a method.
func reads(info *types.Info, body ast.Node, v *types.Var) (fields map[*types.Var]bool, whole bool) {
	fields = map[*types.Var]bool{}
	part := map[*ast.Ident]bool{} // where v stands before a field
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			id, ok := ast.Unparen(n.X).(*ast.Ident)
			selection := info.Selections[n]
			if !ok || info.Uses[id] != v || selection == nil || selection.Kind() != types.FieldVal {
				return true
			}
			part[id] = true
			if st := structOf(v.Type()); st != nil {
				fields[st.Field(selection.Index()[0])] = true
			}
		case *ast.Ident:
			whole = whole || info.Uses[n] == v && !part[n]
		}
		return true
	})
	return fields, whole
}

// structOf returns the struct under a type or what it points to, nil if there is
// none.
func structOf(t types.Type) *types.Struct {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	st, _ := t.Underlying().(*types.Struct)
	return st
}

// omitted reports whether a tag leaves the field out of the JSON.
func omitted(tag string) bool { return reflect.StructTag(tag).Get("json") == "-" }
