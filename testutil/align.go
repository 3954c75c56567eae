package testutil

// step is one line of the difference between two sequences: an index into each,
// or -1 where the other has one more.
type step struct{ want, found int }

// align returns the shortest difference of a sequence of n and one of m
// elements.
func align(n, m int, same func(i, j int) bool) []step {
	// longest[i][j] is the length of the longest common subsequence of what
	// begins at i and at j.
	longest := make([][]int, n+1)
	for i := range longest {
		longest[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if same(i, j) {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	var steps []step
	i, j := 0, 0
	for i < n || j < m {
		switch {
		case i < n && j < m && same(i, j):
			steps = append(steps, step{i, j})
			i++
			j++
		case j == m || i < n && longest[i+1][j] >= longest[i][j+1]:
			steps = append(steps, step{i, -1})
			i++
		default:
			steps = append(steps, step{-1, j})
			j++
		}
	}
	return steps
}

// alternate puts what is missing in a run of differences beside what might be
// there in its place.
func alternate(steps []step) []step {
	out := make([]step, 0, len(steps))
	var missing, extra []step
	flush := func() {
		for i := range max(len(missing), len(extra)) {
			if i < len(missing) {
				out = append(out, missing[i])
			}
			if i < len(extra) {
				out = append(out, extra[i])
			}
		}
		missing, extra = missing[:0], extra[:0]
	}
	for _, s := range steps {
		switch {
		case s.found < 0:
			missing = append(missing, s)
		case s.want < 0:
			extra = append(extra, s)
		default:
			flush()
			out = append(out, s)
		}
	}
	flush()
	return out
}

// unmatched returns the indexes of both sequences that have no counterpart in
// the other, wherever it stands.
func unmatched(n, m int, same func(i, j int) bool) (missing, extra []int) {
	taken := make([]bool, m)
	for i := range n {
		found := false
		for j := 0; j < m && !found; j++ {
			if !taken[j] && same(i, j) {
				taken[j], found = true, true
			}
		}
		if !found {
			missing = append(missing, i)
		}
	}
	for j := range m {
		if !taken[j] {
			extra = append(extra, j)
		}
	}
	return missing, extra
}
