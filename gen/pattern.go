package gen

import (
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/tools/go/packages"
)

// unmatched reports the patterns that matched no package. Of one with "...",
// go list only warns; one without is always a package, or an error of go list,
// unless there is no module to look in.
func (r *report) unmatched(patterns []string, pkgs []*packages.Package) {
	for _, pattern := range patterns {
		found := false
		for _, pkg := range pkgs {
			found = found || !strings.Contains(pattern, "...") || r.matches(pattern, pkg)
		}
		if !found {
			r.addAt(pattern, "the pattern matches no packages; correct or remove it, and run outboxgen within a module")
		}
	}
}

func (r *report) matches(pattern string, pkg *packages.Package) bool {
	subject := pkg.PkgPath
	switch {
	case pattern == pkg.PkgPath: // go list has reported it
		return true
	case filepath.IsAbs(pattern):
		subject = filepath.ToSlash(pkg.Dir)
	case strings.HasPrefix(pattern, "./"), strings.HasPrefix(pattern, "../"):
		pattern = filepath.ToSlash(filepath.Join(r.dir, filepath.FromSlash(pattern)))
		subject = filepath.ToSlash(pkg.Dir)
	}
	expr := strings.ReplaceAll(regexp.QuoteMeta(filepath.ToSlash(pattern)), `\.\.\.`, `.*`)
	if rest, ok := strings.CutSuffix(expr, `/.*`); ok {
		expr = rest + `(/.*)?`
	}
	return regexp.MustCompile(`^` + expr + `$`).MatchString(subject)
}
