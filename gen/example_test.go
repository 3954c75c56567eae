package gen_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/typedoutbox/typedoutbox/gen"
)

// A program can look at the files before it writes them.
func ExampleGenerate() {
	dir, err := os.MkdirTemp("", "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	source := "package orders\n\n//outbox:event orders.created\ntype OrderCreated struct{ ID string }\n"
	for name, text := range map[string]string{"go.mod": "module example.com/orders\n", "orders.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			fmt.Println(err)
			return
		}
	}

	files, err := gen.Generate(context.Background(), gen.Config{Dir: dir})
	if err != nil {
		fmt.Println(err) // every problem, one a line
		return
	}
	for _, f := range files {
		fmt.Println(filepath.Base(f.Path), f.Changed(), bytes.Count(f.New, []byte("topics.New")))
	}
	fmt.Println(gen.Write(files))
	// Output:
	// outbox.lock.json true 0
	// outbox_gen.go true 1
	// <nil>
}
