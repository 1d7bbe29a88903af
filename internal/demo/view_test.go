package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
)

var start = time.Date(2026, 11, 29, 12, 0, 30, 0, time.UTC)

// sent are records of a side: its answers at some seconds, then its refusals.
func sent(side Pacing, answered, refused []float64) []paceline.Record {
	var rs []paceline.Record
	add := func(at float64, status int, class dialect.Class) {
		t := start.Add(time.Duration(at * float64(time.Second)))
		r := paceline.Record{Provider: string(side), Model: "stub-1", Arrived: t, Sent: t, Done: t, Status: status, Class: class}
		if status == 429 {
			r.Evidence = &paceline.Evidence{UnderLimit: true}
		}
		rs = append(rs, r)
	}
	for _, at := range answered {
		add(at, 200, dialect.OK)
	}
	for _, at := range refused {
		add(at, 429, dialect.RateLimited)
	}
	return rs
}

// seen is a demo of 20 s after took.
func seen(took time.Duration) Result {
	return Result{
		Start: start, Took: took, Of: 20 * time.Second,
		Burst: sent(Burst, []float64{0, 0.1, 0.2, 4, 8}, []float64{0.3, 0.4, 8.1}),
		Even:  sent(Even, []float64{0, 4, 8}, nil),
	}
}

func TestView(t *testing.T) {
	want := `
Both sides are told 15 requests a minute. Their provider
keeps that limit as a bucket of 3 tokens: a request takes
one, and one comes back every 4s.

[#######################.......................]  10 of 20 s

burst                           even
sent 8   ok 5   429 3           sent 3   ok 3   429 0
x
x
o
o       x
o   o   o                       o   o   o
+---------+---------            +---------+---------
0 s       10                    0 s       10
o answered, x refused (429), by the second they were sent in
`
	view, ok := View(seen(10*time.Second), 60, 24, false)
	if got := "\n" + view; got != want || !ok {
		t.Errorf("%v, got%s\nwant%s", ok, got, want)
	}
}

// busy is a demo of which much is to be said.
func busy(of time.Duration, n int) Result {
	at := make([]float64, n)
	for i := range at {
		at[i] = of.Seconds() * float64(i) / float64(n)
	}
	failed := sent(Even, at, nil)
	for i := range failed {
		failed[i].Error = "lost"
	}
	return Result{Start: start, Of: of, Took: of, Burst: sent(Burst, at, at), Even: failed}
}

// A view says that it fits only where all of it does, and where it does not
// nothing is cut for that.
func TestViewFits(t *testing.T) {
	for _, of := range []time.Duration{time.Second, 45 * time.Second, time.Hour} {
		for name, r := range map[string]Result{
			"begun": {Start: start, Of: of},
			"ended": {Start: start, Of: of, Took: of, Burst: seen(0).Burst, Even: seen(0).Even},
			"busy":  busy(of, 100),
		} {
			whole, ok := View(r, Width, 1000, false)
			if !ok {
				t.Errorf("%s: %v: it does not fit a large terminal", name, of)
			}
			for _, columns := range []int{0, 1, 19, 39, Least - 1, Least, Least + 1, 73, 74, 79, 99, 100, 101, 200} {
				for _, rows := range []int{0, 1, 8, 20, 21, 22, 23, 24, 39, 1000} {
					view, ok := View(r, columns, rows, false)
					high, wide := 0, 0
					for line := range strings.Lines(view) {
						high, wide = high+1, max(wide, len(line)-1)
					}
					if ok && (high >= rows || wide > columns) {
						t.Fatalf("%s: %v: %d by %d does not fit %d by %d:\n%s", name, of, wide, high, columns, rows, view)
					}
					if !strings.Contains(whole, strings.TrimSpace(strings.SplitAfter(view, "even\n")[1][:leastColumn])) {
						t.Fatalf("%s: %v: a heading was cut at %d columns:\n%s", name, of, columns, view)
					}
					if name == "begun" && ok != (columns >= Least && rows >= 22 || columns >= 74 && rows >= 21) {
						t.Errorf("%s: %v: %d by %d: %v", name, of, columns, rows, ok)
					}
				}
			}
		}
	}
}

// What fits at the start fits the first second, in which all clients send and
// most are refused.
func TestViewFitsBeforeLong(t *testing.T) {
	first := Result{Start: start, Of: Duration, Burst: sent(Burst, []float64{0, 0, 0}, []float64{0, 0, 0, 0, 0, 0, 0})}
	if n := len(first.Burst); n != Clients {
		t.Fatalf("%d of %d clients", n, Clients)
	}
	for rows := range 40 {
		_, before := View(Result{Start: start, Of: Duration}, 79, rows, false)
		if _, after := View(first, 79, rows, false); before != after {
			t.Errorf("%d rows: it fits %v, then %v", rows, before, after)
		}
	}
}

// A number below a plot is whole or not there.
func TestAxisNumbers(t *testing.T) {
	for width := 1; width <= Width; width++ {
		axis := plotOf(nil, start, time.Hour, width).axis()
		if width >= 3 && len(axis[1]) > max(width, 3) {
			t.Errorf("%d: %q", width, axis)
		}
	}
}

// Nothing anybody reads speaks of a cap on how many requests go together: the
// limit is tokens that come back with time.
func TestTheBucketIsNoCapOnConcurrency(t *testing.T) {
	for _, text := range append(Words(seen(0)), told()) {
		if strings.Contains(text, "at once") || strings.Contains(text, "at a time") || strings.Contains(text, "holds") {
			t.Errorf("%q", text)
		}
		if strings.Contains(text, "bucket") && !strings.Contains(text, "a bucket of 3 tokens: a request takes one, and one comes back every 4s") {
			t.Errorf("%q does not say what the bucket holds", text)
		}
	}
}

// The report too is drawn for the terminal; its tables take 78 columns.
func TestReportFits(t *testing.T) {
	for width := leastColumn; width < Least+1; width++ {
		plot := Plot(seen(20*time.Second), width, false)
		for line := range strings.Lines(plot) {
			if len(line)-1 > width {
				t.Fatalf("%d columns: a line of %d: %q", width, len(line)-1, line)
			}
		}
		if !strings.Contains(plot, "sent 8   ok 5   429 3") || !strings.Contains(plot, "sent 3   ok 3   429 0\n") {
			t.Errorf("%d columns:\n%s", width, plot)
		}
	}
	for _, width := range []int{78, 79, 80, 90, 96, 97, 99, 100, 119} {
		var b bytes.Buffer
		if err := WriteReport(&b, seen(20*time.Second), width, false); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if len(line)-1 > min(width, Width) {
				t.Fatalf("%d columns: a line of %d: %q", width, len(line)-1, line)
			}
		}
	}
}

func TestColors(t *testing.T) {
	plain, colored := Plot(seen(0), Width, false), Plot(seen(0), Width, true)
	if strings.Contains(plain, "\x1b") {
		t.Errorf("control codes without colours: %q", plain)
	}
	for code, mark := range map[string]string{"\x1b[31m": "x", "\x1b[32m": "o"} {
		if !strings.Contains(colored, code+mark+"\x1b[0m") {
			t.Errorf("no coloured %s: %q", mark, colored)
		}
	}
	bare := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[0m", "").Replace(colored)
	if bare != plain {
		t.Errorf("colours change the text:\n%s\n%s", bare, plain)
	}
	if strings.Contains(colored, "sent \x1b") || strings.Contains(strings.Split(colored, "\n")[0], "\x1b") {
		t.Errorf("a word is coloured: %q", colored)
	}
}

// Beyond the width a cell is several seconds, and nothing is lost.
func TestPlotOfAnHour(t *testing.T) {
	p := plotOf(sent(Burst, []float64{0, 59, 3599}, []float64{60}), start, time.Hour, 48)
	if p.every != 75*time.Second || len(p.cells) != 48 {
		t.Errorf("%d cells of %v", len(p.cells), p.every)
	}
	if first, last := p.cells[0], p.cells[47]; first != (cell{answered: 2, refused: 1}) || last != (cell{answered: 1}) {
		t.Errorf("first %+v, last %+v", first, last)
	}
	if axis := p.axis(); axis[1] != "0 s       750       1500      2250      3000" {
		t.Errorf("axis %q", axis[1])
	}
}

func TestProgress(t *testing.T) {
	if got, want := Progress(seen(10*time.Second), 80), "10 of 20 s   burst: sent 8, ok 5, 429 3   even: sent 3, ok 3, 429 0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Progress(seen(10*time.Second), 39), "10 of 20 s\n  burst: sent 8, ok 5, 429 3\n  even: sent 3, ok 3, 429 0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWords(t *testing.T) {
	some := seen(20 * time.Second)
	some.Burst[7].Evidence.UnderLimit = false
	one := Result{Burst: sent(Burst, []float64{0}, []float64{1}), Even: sent(Even, []float64{0}, []float64{1, 2})}
	failed := Result{Burst: sent(Burst, []float64{0}, nil)}
	failed.Burst[0].Error = "cut"
	spread := "Both were told 15 a minute and neither sent more: the provider keeps that limit as a bucket of 3 tokens: a request takes one, and one comes back every 4s. What counts is how the requests are spread."
	for _, c := range []struct {
		name string
		r    Result
		want []string
	}{
		{"whole", seen(20 * time.Second), []string{
			"burst: 3 of 8 requests refused, all while under the limit of 15 a minute; 5 answered.",
			"even: none of 3 requests refused; 3 answered.", spread}},
		{"ended", seen(9 * time.Second), []string{
			"burst: 3 of 8 requests refused, all while under the limit of 15 a minute; 5 answered.",
			"even: none of 3 requests refused; 3 answered.", spread,
			"This is what was seen until it was ended after 9s of 20s."}},
		{"not all under the limit", some, []string{
			"burst: 3 of 8 requests refused, 2 of them while under the limit of 15 a minute; 5 answered.",
			"even: none of 3 requests refused; 3 answered.", spread}},
		{"both refused", one, []string{
			"burst: 1 of 2 requests refused, while under the limit of 15 a minute; 1 answered.",
			"even: 2 of 3 requests refused, all while under the limit of 15 a minute; 1 answered."}},
		{"failures", failed, []string{"burst: none of 1 request refused; 0 answered, 1 failed.", "even: nothing was sent yet."}},
	} {
		if got := strings.Join(Words(c.r), "\n"); got != strings.Join(c.want, "\n") {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, strings.Join(c.want, "\n"))
		}
	}
}

func TestReport(t *testing.T) {
	var b bytes.Buffer
	if err := WriteReport(&b, seen(20*time.Second), Width, false); err != nil {
		t.Fatal(err)
	}
	want := `
provider/model  sent  ok  429  429<lim  err  retry  tmout  cache  saved  q avg s  peak/min  avg/min
burst/stub-1       8   5    3        3    0      0      0      0      0      0.0         8      8.0

total              8   5    3        3    0      0      0      0      0      0.0         8      8.0

configured limits of burst: 15/minute, burst pacing
429s while under every configured limit: 3 of 3

provider/model  sent  ok  429  429<lim  err  retry  tmout  cache  saved  q avg s  peak/min  avg/min
even/stub-1        3   3    0        0    0      0      0      0      0      0.0         3      3.0

total              3   3    0        0    0      0      0      0      0      0.0         3      3.0

configured limits of even: 15/minute, even pacing
429s: none

burst                                               even
sent 8   ok 5   429 3                               sent 3   ok 3   429 0
x
x
o
o       x
o   o   o                                           o   o   o
+---------+---------                                +---------+---------
0 s       10                                        0 s       10
o answered, x refused (429), by the second they were sent in

burst: 3 of 8 requests refused, all while under the limit of 15 a minute; 5 answered.
even: none of 3 requests refused; 3 answered.
Both were told 15 a minute and neither sent more: the provider keeps that limit as a bucket of 3
tokens: a request takes one, and one comes back every 4s. What counts is how the requests are
spread.
`
	if got := "\n" + b.String(); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
}
