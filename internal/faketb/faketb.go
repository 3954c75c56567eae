// Package faketb runs code that takes a testing.TB and records how it ends, so
// that a test can be about a failing or skipping test.
package faketb

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// Result is how the code ended.
type Result struct {
	Failed  bool
	Skipped bool
	Text    string // of Error, Fatal and Skip, a line each
}

// Run calls f with a testing.TB that records failure and skipping instead of
// passing them to t, then the cleanups that f registered. Everything else, such
// as TempDir, is that of t. A panic in f is a panic of Run.
func Run(t testing.TB, f func(t testing.TB)) Result {
	t.Helper()
	tb := &recorder{TB: t}
	tb.call(func() { f(tb) })
	for len(tb.cleanups) > 0 {
		last := tb.cleanups[len(tb.cleanups)-1]
		tb.cleanups = tb.cleanups[:len(tb.cleanups)-1]
		tb.call(last)
	}
	tb.result.Text = strings.TrimSuffix(tb.result.Text, "\n")
	return tb.result
}

type recorder struct {
	testing.TB
	result   Result
	cleanups []func()
}

// call runs f in a goroutine of its own, which FailNow and SkipNow may end.
func (r *recorder) call(f func()) {
	var panicked any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		f()
	}()
	<-done
	if panicked != nil {
		panic(panicked)
	}
}

func (r *recorder) say(text string) { r.result.Text += text + "\n" }

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool     { return r.result.Failed }
func (r *recorder) Skipped() bool    { return r.result.Skipped }
func (r *recorder) Fail()            { r.result.Failed = true }

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) Error(args ...any) {
	r.say(strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
	r.Fail()
}

func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

func (r *recorder) SkipNow() {
	r.result.Skipped = true
	runtime.Goexit()
}

func (r *recorder) Skip(args ...any) {
	r.say(strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
	r.SkipNow()
}

func (r *recorder) Skipf(format string, args ...any) { r.Skip(fmt.Sprintf(format, args...)) }
