package demo

import (
	"fmt"
	"io"
	"os"
	"time"
)

// sparseEvery is how often progress is told where there is no terminal.
const sparseEvery = 2 * time.Second

// terminal shows progress: one line that changes, or now and then a new one if
// nobody is watching.
type terminal struct {
	out  io.Writer
	live bool
	next time.Time // when a new line is due, if not live
}

func newTerminal(out io.Writer) *terminal {
	t := &terminal{out: out}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		t.live = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return t
}

// say prints a line that stays.
func (t *terminal) say(format string, args ...any) {
	if t.live {
		fmt.Fprint(t.out, "\r\033[K")
	}
	fmt.Fprintf(t.out, format+"\n", args...)
}

// progress shows a line that the next one replaces.
func (t *terminal) progress(line string) {
	switch now := time.Now(); {
	case t.live:
		fmt.Fprint(t.out, "\r\033[K"+line)
	case !now.Before(t.next):
		fmt.Fprintln(t.out, line)
		t.next = now.Add(sparseEvery)
	}
}

// clear takes the changing line away.
func (t *terminal) clear() {
	if t.live {
		fmt.Fprint(t.out, "\r\033[K")
	}
}
