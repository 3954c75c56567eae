// Package gen is the generator behind the command outboxgen: it loads
// packages, finds the structs that are annotated as events, checks them, also
// against what outbox.lock.json has of their payloads, and writes the topics of
// each package into one file, outbox_gen.go.
//
// The manual of the annotations is that of the command,
// github.com/typedoutbox/typedoutbox/cmd/outboxgen. A program that wants the
// files without the command asks for them and writes them:
//
//	files, err := gen.Generate(ctx, gen.Config{Patterns: []string{"./..."}})
//	if err != nil {
//		return err // every problem of every package, one a line
//	}
//	return gen.Write(files)
package gen
