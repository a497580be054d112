// Package spelling finds what a person most likely meant by a name that is unknown. It is pure.
package spelling

import "strings"

// Nearest returns the known name that a person most likely meant by name, or
// nothing when all are too far away: more than a third of the letters wrong.
func Nearest(name string, known []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, k := range known {
		d := distance(strings.ToLower(name), strings.ToLower(k))
		// Two letters that changed places are one slip, not two.
		if d < least || d == least && best == "" && sameLetters(name, k) {
			best, least = k, d
		}
	}
	return best
}

// distance returns how many letters must be added, removed or replaced to make
// b of a.
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

func sameLetters(a, b string) bool {
	var count [256]int
	for i := range len(a) {
		count[a[i]]++
	}
	for i := range len(b) {
		count[b[i]]--
	}
	return count == [256]int{}
}
