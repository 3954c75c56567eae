package gen

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// BenchmarkGenerate compares Generate with a bare load, in the same mode, of the
// same module of 200 packages and 1,000 events, one run of each after the other.
// The ratio of the medians is to stay below 1.3:
//
//	go test ./gen -run='^$' -bench=Generate -benchtime=5x
//
// The first time there is neither code nor lock, so that the bare load has less to
// read; each time after that both are compared with what is there.
func BenchmarkGenerate(b *testing.B) {
	dir := b.TempDir()
	writeEvents(b, dir, 200, 5)
	load := func() {
		pkgs, err := packages.Load(&packages.Config{Mode: loadMode, Dir: dir, Context: b.Context()}, "./...")
		require.NoError(b, err)
		require.Len(b, pkgs, 200)
	}
	generate := func() []File {
		files, err := Generate(b.Context(), Config{Dir: dir, Patterns: []string{"./..."}})
		require.NoError(b, err)
		require.Len(b, files, 400)
		return files
	}
	measure := func(b *testing.B) {
		load() // fills the build cache
		var bare, whole []time.Duration
		for b.Loop() {
			start := time.Now()
			load()
			middle := time.Now()
			generate()
			whole, bare = append(whole, time.Since(middle)), append(bare, middle.Sub(start))
		}
		slices.Sort(bare)
		slices.Sort(whole)
		b.ReportMetric(bare[len(bare)/2].Seconds()*1e3, "load-ms")
		b.ReportMetric(whole[len(whole)/2].Seconds()*1e3, "generate-ms")
		b.ReportMetric(float64(whole[len(whole)/2])/float64(bare[len(bare)/2]), "ratio")
	}
	b.Run("first", measure)
	require.NoError(b, Write(generate()))
	b.Run("again", measure)
}

// writeEvents writes a module whose packages hold events as an application has
// them, and a function that uses what is not generated yet.
func writeEvents(b *testing.B, dir string, count, events int) {
	b.Helper()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(b, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(b, os.WriteFile(path, []byte(text), 0o644))
	}
	write("go.mod", "module example.com/large\n\ngo 1.26.0\n")
	for p := range count {
		var text strings.Builder
		fmt.Fprintf(&text, "package p%d\n\nimport \"time\"\n\ntype Money struct {\n\tUnits int64 `json:\"units\"`\n\tCurrency string `json:\"currency\"`\n}\n", p)
		for e := range events {
			fmt.Fprintf(&text, `
type Line%[2]d struct {
	SKU   string `+"`json:\"sku\"`"+`
	Count int    `+"`json:\"count\"`"+`
	Price Money  `+"`json:\"price\"`"+`
}

//outbox:event p%[1]d.event%[2]d key=OrderID,Sequence order=customer:CustomerID
type Event%[2]d struct {
	OrderID    string            `+"`json:\"order_id\"`"+`
	Sequence   int64             `+"`json:\"sequence\"`"+`
	CustomerID int64             `+"`json:\"customer_id\"`"+`
	At         time.Time         `+"`json:\"at\"`"+`
	Lines      []Line%[2]d       `+"`json:\"lines\"`"+`
	Labels     map[string]string `+"`json:\"labels,omitempty\"`"+`
	Note       *string           `+"`json:\"note\"`"+`
}

func enqueue%[2]d(e Event%[2]d) (total int64) {
	for _, line := range e.Lines {
		total += int64(line.Count) * line.Price.Units
	}
	_ = Event%[2]dTopic
	return total
}
`, p, e)
		}
		write(fmt.Sprintf("p%d/events.go", p), text.String())
	}
}
