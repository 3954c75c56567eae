package main_test

import (
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManual builds the command and compares its usage with the manual.
func TestManual(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", nil, parser.ParseComments)
	require.NoError(t, err)
	manual := file.Doc.Text()

	binary := filepath.Join(t.TempDir(), "outboxgen")
	out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(binary, "-h").CombinedOutput()
	require.NoError(t, err, "%s", out)

	usage, flags, _ := strings.Cut(string(out), "\n")
	require.Contains(t, manual, "\t"+strings.TrimPrefix(usage, "usage: ")+"\n")
	found := regexp.MustCompile(`(?m)^  (-\w+(?: \w+)?)`).FindAllStringSubmatch(flags, -1)
	require.NotEmpty(t, found)
	for _, match := range found {
		require.Regexp(t, `(?m)^\t`+match[1]+` `, manual)
	}
}
