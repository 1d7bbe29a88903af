// Package spelling finds what somebody meant to write.
package spelling

import (
	"slices"
	"strings"
)

// Nearest is the word that a mistyped one was probably meant to be, empty
// where none is near. Capitals, dashes and underscores make no difference.
func Nearest(typed string, words []string) string {
	typed = plain(typed)
	if typed == "" || len(typed) > 100 {
		return ""
	}
	best, least := "", 3 // edits
	for _, word := range words {
		w := plain(word)
		d := edits(typed, w)
		if d > 0 && strings.HasPrefix(w, typed) {
			d = 1
		}
		// Most of a short word is no typing mistake.
		if d < least && d < len(w) && d <= max(1, len(typed)/2) {
			best, least = word, d
		}
	}
	return best
}

func plain(word string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(word))
}

// edits is how many letters must be added, taken away, changed or swapped with
// their neighbour to make b of a.
func edits(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			changed := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				changed++
			}
			rows[i][j] = slices.Min([]int{changed, rows[i-1][j] + 1, rows[i][j-1] + 1})
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
