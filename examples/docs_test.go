package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTestingPage checks that the Go code in docs/testing.md is code that runs.
func TestTestingPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "testing.md"))
	require.NoError(t, err)
	var sources strings.Builder
	for _, file := range []string{"recipes/shop_test.go", "txdb/txdb_test.go", "../testutil/storetest/run_test.go"} {
		source, err := os.ReadFile(filepath.FromSlash(file))
		require.NoError(t, err)
		sources.Write(source)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(blocks), 10)
	for _, block := range blocks {
		require.Contains(t, sources.String(), block[1])
	}
}
