//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// realTime is the wall clock of the machine, also in a program whose time.Now is
// shifted.
func realTime() time.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts); err != nil {
		panic(err) // cannot happen on Linux
	}
	return time.Unix(ts.Unix())
}

// clock tells the time since the beginning of a run, on the wall clock that the
// server shares.
type clock struct{ start time.Time }

func (c clock) now() time.Duration { return c.at(realTime()) }

func (c clock) at(t time.Time) time.Duration { return t.Round(0).Sub(c.start) }

// clockShift is how far time.Now is from the wall clock of the machine.
func clockShift() time.Duration {
	return time.Now().Round(0).Sub(realTime()).Round(time.Second)
}

// shiftVar is the environment variable with the shift in seconds.
const shiftVar = "CHAOS_CLOCK_SHIFT"

// The change to time.go. Only the wall clock is shifted: monotonic readings, and
// so timers and deadlines, stay as they are, as with a machine whose date is
// wrong.
const (
	nowBefore = "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {"
	nowAfter  = "	sec, nsec, mono := runtimeNow()\n	sec += chaosShift\n	if mono == 0 {"
	nowMore   = `
// chaosShift is added to the wall clock, in seconds.
var chaosShift = func() (n int64) {
	text, _ := syscall.Getenv("` + shiftVar + `")
	negative := len(text) > 0 && text[0] == '-'
	for _, c := range []byte(text) {
		if c >= '0' && c <= '9' {
			n = 10*n + int64(c-'0')
		}
	}
	if negative {
		return -n
	}
	return n
}()
`
)

// readNow returns the path and the text of the time.go of this Go.
func readNow(ctx context.Context) (path, source string, err error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(path)
	return path, string(text), err
}

// shiftNow returns time.go with a Now that adds chaosShift.
func shiftNow(source string) (string, error) {
	const imports = "import (\n"
	if strings.Count(source, nowBefore) != 1 || strings.Count(source, imports) != 1 {
		return "", errors.New("the time.Now of this Go is not as expected; adapt clock.go")
	}
	source = strings.Replace(source, nowBefore, nowAfter, 1)
	return strings.Replace(source, imports, imports+"\t\"syscall\"\n", 1) + nowMore, nil
}

// buildShifted builds this program with a wall clock that can be shifted, in
// dir, and returns its path.
func buildShifted(ctx context.Context, dir string) (string, error) {
	original, source, err := readNow(ctx)
	if err != nil {
		return "", fmt.Errorf("find the source of Go: %w", err)
	}
	changed, err := shiftNow(source)
	if err != nil {
		return "", err
	}
	replacement, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{original: replacement}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(replacement, []byte(changed), 0o600), os.WriteFile(overlay, text, 0o600)); err != nil {
		return "", err
	}
	program := filepath.Join(dir, "chaos-shifted")
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay="+overlay, "-o", program, "github.com/typedoutbox/typedoutbox/internal/chaos")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a relay with a shifted clock: %w\n%s", err, out)
	}
	return program, nil
}
