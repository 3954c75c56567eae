package directive

import (
	"fmt"
	"strings"
)

// choose is the remedy for a word that is not in allowed.
func choose(word string, allowed []string) string {
	var what string
	if len(allowed) == 1 {
		what = "only " + allowed[0] + " is allowed"
	} else {
		what = "allowed are " + list(allowed, "and")
	}
	if near := Nearest(strings.ToLower(word), allowed); near != "" {
		return fmt.Sprintf("did you mean %s? %s", near, what)
	}
	return what
}

// Nearest returns the candidate that word was probably meant to be, "" if
// none is close.
func Nearest(word string, candidates []string) string {
	best, limit := "", 3
	for _, c := range candidates {
		if d := distance(word, c); d < limit && d*2 < len(c) {
			best, limit = c, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func list(words []string, conjunction string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}
