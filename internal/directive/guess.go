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
	if near := meant(strings.ToLower(word), allowed); near != "" {
		return fmt.Sprintf("did you mean %s? %s", near, what)
	}
	return what
}

// meant returns the word that was shortened, or else the nearest.
func meant(word string, allowed []string) string {
	var longer []string
	for _, a := range allowed {
		if len(word) > 1 && strings.HasPrefix(a, word) {
			longer = append(longer, a)
		}
	}
	if len(longer) == 1 {
		return longer[0]
	}
	return Nearest(word, allowed)
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

// distance is how many bytes must be put in, left out, replaced or swapped with
// the next one (each byte once) to make b of a.
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1) // for the letters of a so far, less one, and all
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			next[j+1] = min(row[j+1], next[j]) + 1
			switch {
			case a[i] == b[j]:
				next[j+1] = min(next[j+1], row[j])
			case i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j]:
				next[j+1] = min(next[j+1], row[j]+1, before[j-1]+1)
			default:
				next[j+1] = min(next[j+1], row[j]+1)
			}
		}
		before, row = row, next
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
