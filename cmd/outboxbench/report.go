package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// teller tells the results of a contest.
type teller func(c contest, results []result) error

func newTeller(w io.Writer, asJSON bool) teller {
	if asJSON {
		encoder := json.NewEncoder(w)
		return func(_ contest, results []result) error {
			for _, r := range results {
				if err := encoder.Encode(r); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return func(c contest, results []result) error { return writeTable(w, c, results) }
}

func writeTable(w io.Writer, c contest, results []result) error {
	if len(results) == 0 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%s\n", c.name)
	heads := []string{"subject", "n", "batch", "workers", c.unit + "/s", "p50 ms", "p99 ms", "RSS MiB", "allocs", "ratio"}
	// The first column is aligned to the left by hand.
	width := len(heads[0])
	for _, r := range results {
		width = max(width, len(r.Subject))
	}
	for _, cells := range append([][]string{heads}, cellsOf(results)...) {
		fmt.Fprintf(tw, "%-*s\t%s\t\n", width, cells[0], strings.Join(cells[1:], "\t"))
	}
	return tw.Flush()
}

func cellsOf(results []result) [][]string {
	var out [][]string
	for _, r := range results {
		out = append(out, []string{
			r.Subject, whole(r.N), whole(r.Batch), whole(r.Workers), number(r.PerSec),
			number(r.P50), number(r.P99), number(r.RSS), number(r.Allocs), ratio(r),
		})
	}
	return out
}

// number has three digits of interest, and nothing for 0.
func number(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 100:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 2, 64), ".00")
}

// whole is an integer, and nothing for 0.
func whole(n int) string {
	if n == 0 {
		return ""
	}
	return thousands(strconv.Itoa(n))
}

// ratio also says to whom, where that is not plain.
func ratio(r result) string {
	if r.Ratio == 0 {
		return ""
	}
	text := strconv.FormatFloat(r.Ratio, 'f', 2, 64)
	if r.odd {
		text += " of " + r.Baseline
	}
	return text
}

// thousands puts commas into the digits of an integer.
func thousands(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
