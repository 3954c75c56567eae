package gen

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/typedoutbox/typedoutbox/internal/directive"
)

// upcast is a function with an upcast directive.
type upcast struct {
	*directive.Directive
	fn       *ast.FuncDecl
	broken   bool
	lossy    bool       // what it takes loses something as JSON
	from, to types.Type // nil if the signature is of no use
}

func (s *upcast) name() string { return s.fn.Name.Name }

func (u *unit) addUpcast(d *directive.Directive, fn *ast.FuncDecl, broken bool) {
	u.upcasts = append(u.upcasts, &upcast{Directive: d, fn: fn, broken: broken})
}

// checkUpcasts gives each upcast to its event, and then checks that the steps
// of an event fit together and that none is missing.
func (u *unit) checkUpcasts() {
	for _, s := range u.upcasts {
		if s.broken {
			u.strays = append(u.strays, s.Upcast.Type.Text)
			continue
		}
		u.checkSignature(s)
		if e := u.target(s); e != nil {
			u.addStep(e, s)
		} else {
			u.strays = append(u.strays, "")
		}
	}
	for _, e := range u.events {
		if !e.broken {
			u.checkChain(e)
		}
	}
}

// checkSignature finds what the function takes and returns.
func (u *unit) checkSignature(s *upcast) {
	pos := s.fn.Name.Pos()
	obj, _ := u.pkg.TypesInfo.Defs[s.fn.Name].(*types.Func)
	switch {
	case s.fn.Recv != nil:
		u.report.addf(pos, "%s is a method; an upcast is a function", s.name())
		return
	case s.fn.Type.TypeParams != nil:
		u.report.addf(pos, "%s is generic; write one function a step", s.name())
		return
	case s.name() == "_" || obj == nil:
		u.report.addf(pos, "%s cannot be called; give the upcast a name of its own", s.name())
		return
	}
	sig := obj.Signature()
	if sig.Params().Len() != 1 || sig.Variadic() || sig.Results().Len() != 2 ||
		!types.Identical(sig.Results().At(1).Type(), types.Universe.Lookup("error").Type()) {
		u.report.addf(pos, "%s is %s; an upcast is a func(OLD) (NEW, error)", s.name(), u.spell(sig))
		return
	}
	from, to := sig.Params().At(0).Type(), sig.Results().At(0).Type()
	if isInvalid(from) || isInvalid(to) {
		u.report.addf(pos, "the signature of %s does not resolve%s; make it compile, then generate", s.name(), u.because(pos))
		return
	}
	s.from, s.to = from, to
	s.lossy = u.checkPayload(from, pos)
}

func isInvalid(t types.Type) bool {
	return types.Identical(types.Unalias(t), types.Typ[types.Invalid]) || isPredeclared(types.Unalias(t).Underlying(), types.Invalid)
}

// target returns the event that an upcast names.
func (u *unit) target(s *upcast) *event {
	var names []string
	for _, e := range u.events {
		if e.typeName() == s.Upcast.Type.Text {
			return e
		}
		names = append(names, e.typeName())
	}
	name, pos := s.Upcast.Type.Text, s.Upcast.Type.Pos
	obj := u.pkg.Types.Scope().Lookup(name)
	switch near := directive.Nearest(name, names); {
	case u.doubted[name]: // what is wrong with its directive is reported
	case obj != nil:
		u.report.addf(pos, "%s (%s) is not an event; put //outbox:event on it, or name another type", name, u.report.at(obj.Pos()))
	case near != "":
		u.report.addf(pos, "there is no type %s in this package; did you mean %s?", name, near)
	default:
		u.report.addf(pos, "there is no type %s in this package; keep the upcasts of an event in its package", name)
	}
	return nil
}

func (u *unit) addStep(e *event, s *upcast) {
	from := s.Upcast.From
	if e.broken {
		return
	}
	if first := e.steps[from.N]; first != nil {
		e.strays++
		u.report.addf(from.Pos, "from=%d of %s is taken by %s (%s); keep one, or correct from=", from.N, e.typeName(), first.name(), u.report.at(first.Pos))
		return
	}
	if from.N >= e.Version.N {
		e.strays++
		remedy := fmt.Sprintf("set version=%d", from.N+1)
		if e.Version.N > 1 {
			remedy += ", or correct from="
		}
		u.report.addf(from.Pos, "from=%d is not below the version of %s, which is %d (%s); %s",
			from.N, e.typeName(), e.Version.N, u.report.at(e.Version.Pos), remedy)
		return
	}
	if e.steps == nil {
		e.steps = map[int]*upcast{}
	}
	e.steps[from.N] = s
	u.checkOld(e, s)
}

// astray returns how many directives that are no upcasts, since something is wrong
// with them, may have been meant as those of an event: they name it, or no event.
func (u *unit) astray(e *event) (n int) {
	for _, name := range u.strays {
		if name == e.typeName() || !slices.ContainsFunc(u.events, func(e *event) bool { return e.typeName() == name }) {
			n++
		}
	}
	return n
}

// checkOld reports an upcast that takes the struct of the event, by whichever
// name: the next change of the event would change how rows of the old version are
// read. That is so even while the two versions look the same.
func (u *unit) checkOld(e *event, s *upcast) {
	if s.from == nil {
		return
	}
	from := types.Unalias(s.from)
	if ptr, ok := from.(*types.Pointer); ok {
		from = types.Unalias(ptr.Elem())
	}
	name, n := u.spell(s.from), s.Upcast.From.N
	switch {
	case s.from == e.obj.Type():
		name += " itself, which changes"
	case types.Identical(from, e.obj.Type()):
		name += ", which is " + e.typeName() + " itself and changes"
	case from.Underlying() == e.obj.Type().Underlying(): // one struct, and not two that are alike
		name += ", which has the struct of " + e.typeName() + " and changes with it"
	default:
		return
	}
	s.from = nil
	own := unexported(e.typeName()) + "V" + strconv.Itoa(n)
	remedy := fmt.Sprintf("write the struct as it was at version %d out, as a type of its own", n)
	if !u.declares(own) {
		remedy += " such as " + own
	}
	remedy += ", and let " + s.name() + " take it"
	for _, before := range u.upcasts {
		if before.Upcast != nil && before.Upcast.Type.Text == e.typeName() && before.Upcast.From.N == n-1 {
			remedy += ", and " + before.name() + " return it"
			break
		}
	}
	u.report.addf(s.fn.Name.Pos(), "%s takes %s, while rows of version %d do not; %s", s.name(), name, n, remedy)
}

// declares reports whether the package has a name already.
func (u *unit) declares(name string) bool { return u.pkg.Types.Scope().Lookup(name) != nil }

// unexported is a name with its first letter small.
func unexported(name string) string {
	r, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToLower(r)) + name[size:]
}

func (u *unit) checkChain(e *event) {
	var missing []int
	for n := 1; n < e.Version.N; n++ {
		s, next := e.steps[n], e.steps[n+1]
		switch {
		case s == nil:
			missing = append(missing, n)
		case s.to == nil:
			// The signature is reported.
		case n == e.Version.N-1 && !types.Identical(s.to, e.obj.Type()):
			u.report.addf(s.fn.Name.Pos(), "%s returns %s; the last step, from=%d, returns %s", s.name(), u.spell(s.to), n, e.typeName())
		case next != nil && next.from != nil && !types.Identical(s.to, next.from):
			u.report.addf(next.fn.Name.Pos(), "%s takes %s, but %s (%s) returns %s; a step returns what the next one takes, so let %s return %s",
				next.name(), u.spell(next.from), s.name(), u.report.at(s.fn.Name.Pos()), u.spell(s.to), s.name(), u.spell(next.from))
		}
	}
	if len(missing) > e.strays+u.astray(e) { // or else what is wrong with them is reported
		u.report.addf(e.Version.Pos, "version=%d of %s has no upcast from %s, so stored rows could not be decoded; %s",
			e.Version.N, e.typeName(), numbers(missing), u.suggest(e, missing[0]))
	}
}

// suggest is the function that is missing.
func (u *unit) suggest(e *event, n int) string {
	from, to, more := "OLD", "NEXT", ""
	before, next := e.steps[n-1], e.steps[n+1]
	if before != nil && before.to != nil && !types.Identical(before.to, e.obj.Type()) {
		from = u.spell(before.to)
	} else {
		more = fmt.Sprintf(", OLD being a copy of %s as it was at version %d, under another name", e.typeName(), n)
		if before != nil {
			more += fmt.Sprintf(", which %s is to return then", before.name())
		}
	}
	switch {
	case n == e.Version.N-1:
		to = e.typeName()
	case next != nil && next.from != nil:
		to = u.spell(next.from)
		more += fmt.Sprintf(", and %s what from=%d takes", to, n+1)
	default:
		more += fmt.Sprintf(", and NEXT what from=%d takes", n+1)
	}
	return fmt.Sprintf("write //outbox:upcast %s from=%d above a func(%s) (%s, error)%s", e.typeName(), n, from, to, more)
}

// numbers lists the first few numbers.
func numbers(list []int) string {
	const most = 3
	var words []string
	for _, n := range list[:min(len(list), most)] {
		words = append(words, strconv.Itoa(n))
	}
	text := strings.Join(words, ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
