package outbox_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The documentation names tests as evidence. A test that was renamed or removed
// must not go on being one.
func TestDocumentationNamesTestsThatExist(t *testing.T) {
	declared := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range declaration.FindAllSubmatch(text, -1) {
			declared[string(match[1])] = true
		}
		return err
	}))
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)\\w+)`")
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, match := range named.FindAllSubmatch(text, -1) {
			require.True(t, declared[string(match[1])], "%s names %s, which no test is called", page, match[1])
		}
	}
}
