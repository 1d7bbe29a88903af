package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"maxPerMinute", "baseURL", "apiKey", "id", "retry-after"}
	for typed, want := range map[string]string{
		"maxPerMinut":              "maxPerMinute",
		"max_per_min":              "maxPerMinute", // the beginning of a word
		"base_url":                 "baseURL",
		"APIKEY":                   "apiKey",
		"apiKye":                   "apiKey", // swapped
		"retryAfter":               "retry-after",
		"pacing":                   "",
		"xy":                       "", // most of a short word
		"":                         "",
		"__":                       "",
		"apiKey":                   "apiKey",
		strings.Repeat("a", 1<<20): "",
	} {
		if got := Nearest(typed, words); got != want {
			t.Errorf("%.20q: %q, want %q", typed, got, want)
		}
	}
}
