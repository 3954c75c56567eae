package outbox_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/typedoutbox/typedoutbox"

// dependencies lists what the packages of a pattern import, directly or not.
func dependencies(t *testing.T, pattern string) map[string]bool {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", pattern).Output()
	require.NoError(t, err)
	deps := map[string]bool{}
	for path := range strings.FieldsSeq(string(out)) {
		deps[path] = true
	}
	require.NotEmpty(t, deps)
	return deps
}

// isStandard reports whether a package is of the standard library, whose paths
// have no dot before the first slash.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func TestImportsPointOneWay(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("this test asks the go command: %v", err)
	}
	for _, c := range []struct {
		pattern string
		refused []string // prefixes
	}{
		{module + "/topics/...", []string{module + "/outbox", module + "/testutil", module + "/gen", module + "/cmd", module + "/internal"}},
		{module + "/outbox/...", []string{
			"github.com/stretchr/testify", "golang.org/x/tools", "github.com/jackc/pgx", "pgregory.net/rapid", "github.com/peterldowns/pgtestdb",
			"testing", module + "/testutil", module + "/internal/pg", module + "/gen", module + "/cmd",
		}},
		{module + "/gen/...", []string{"github.com/stretchr/testify", "github.com/uptrace/bun", module + "/outbox", module + "/testutil", module + "/cmd"}},
	} {
		for path := range dependencies(t, c.pattern) {
			for _, refused := range c.refused {
				require.False(t, path == refused || strings.HasPrefix(path, strings.TrimSuffix(refused, "/")+"/"), "%s imports %s", c.pattern, path)
			}
		}
	}
	for path := range dependencies(t, module+"/topics") {
		require.True(t, isStandard(path) || path == module+"/topics", "topics imports %s", path)
	}
}
