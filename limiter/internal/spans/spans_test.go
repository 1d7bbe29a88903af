package spans

import (
	"math"
	"testing"
)

// list has pairs of a span and when it was asked for.
type list [][2]int64

func (l list) Len() int                      { return len(l) }
func (l list) Span(i int) (per, asked int64) { return l[i][0], l[i][1] }

func TestSource(t *testing.T) {
	ws := list{{60, 0}, {10, 0}, {3600, 0}, {1, 0}}
	for per, want := range map[int64]int{1: 3, 2: 1, 10: 1, 11: 0, 61: 2, 3600: 2, 3601: 2, math.MaxInt64: 2} {
		if got := Source(ws, per); got != want {
			t.Errorf("a window of %d begins from the %d-th, want the %d-th", per, got, want)
		}
	}
	if got := Source(list{}, 1); got != -1 {
		t.Errorf("%d of no windows", got)
	}
}

func TestSpare(t *testing.T) {
	many := list{{1e6, 0}}
	for i := range int64(Most - 1) {
		many = append(many, [2]int64{1e5 + i, 100 - i})
	}
	for name, c := range map[string]struct {
		ws       list
		per, now int64
		want     int
	}{
		"no windows":                       {list{}, 1, 1000, -1},
		"the longest, however old":         {list{{10, 0}}, 5, 1000, -1},
		"stale beside a longer one":        {list{{60, 900}, {10, 900}}, 5, 921, 1},
		"not yet stale":                    {list{{60, 900}, {10, 900}}, 5, 920, -1},
		"stale, and the new one is longer": {list{{10, 900}}, 60, 921, 0},
		"of this request":                  {list{{60, 921}, {0, 921}}, 5, 921, -1},
		"too many":                         {many, 5, 1000, Most - 1},
		"one fewer":                        {many[1:], 1e7, 1000, -1},
		"too many, of this request":        {many, 5, 86, -1},
		"too many, one of them earlier":    {many, 5, 87, Most - 1},
	} {
		if got := Spare(c.ws, c.per, c.now); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// Nothing overflows with spans without end.
func TestStale(t *testing.T) {
	for _, c := range []struct {
		per, asked, now int64
		want            bool
	}{
		{10, 100, 120, false},
		{10, 100, 121, true},
		{math.MaxInt64, 0, math.MaxInt64, false},
	} {
		if got := Stale(c.per, c.asked, c.now); got != c.want {
			t.Errorf("%d asked for at %d is stale at %d: %v", c.per, c.asked, c.now, got)
		}
	}
	if got := Longest(list{{10, 0}, {60, 0}, {1, 0}}); got != 60 {
		t.Errorf("%d is the longest, want 60", got)
	}
}
