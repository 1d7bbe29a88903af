package dialecttest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
)

// Run reads every case of a file system with one dialect. A file system
// without cases is a failure: it would prove nothing.
func Run(t *testing.T, d *dialect.Dialect, fsys fs.FS) {
	t.Helper()
	cases, err := Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Check(d); err != nil {
				t.Errorf("%s reads it wrong (- want, + got):\n%v\nWhy: %s", d.Name, err, c.Why)
			}
		})
	}
}

// Check reads the case and returns how the reading differs from the right one,
// one line a difference, and promises of [dialect.Reading] it breaks.
func (c Case) Check(d *dialect.Dialect) error {
	var body []byte
	if c.Body != "" {
		body = []byte(c.Body)
	}
	got := d.ReadHead(c.Head(), body)
	return errors.Join(Sound(got), c.compare(got))
}

func (c Case) compare(got dialect.Reading) error {
	var lines []string
	differ := func(what string, want, got any) {
		if w, g := fmt.Sprint(want), fmt.Sprint(got); w != g {
			lines = append(lines, fmt.Sprintf("- %s %s", what, w), fmt.Sprintf("+ %s %s", what, g))
		}
	}
	differ("class", c.Expect.Class, got.Class)
	want, told := "not said", "not said"
	if c.Expect.WaitMS != nil {
		want = (time.Duration(*c.Expect.WaitMS) * time.Millisecond).String()
	}
	if got.Told {
		told = got.Wait.String()
	}
	differ("wait", want, told)

	var wanted, read []string
	for _, b := range c.Expect.Buckets {
		wanted = append(wanted, b.String())
	}
	for _, s := range got.Buckets {
		read = append(read, bucketOf(s).String())
	}
	for _, b := range wanted {
		if i := slices.Index(read, b); i >= 0 {
			read = slices.Delete(read, i, i+1)
		} else {
			lines = append(lines, "- bucket "+b)
		}
	}
	for _, b := range read {
		lines = append(lines, "+ bucket "+b)
	}
	if lines == nil {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}

func bucketOf(s dialect.Snapshot) Bucket {
	b := Bucket{Unit: s.Unit, Window: s.Window, Limit: s.Limit, Remaining: s.Remaining}
	if !s.Recovery.At.IsZero() {
		b.ResetAt = &s.Recovery.At
	}
	return b
}

// String writes a bucket on one line.
func (b Bucket) String() string {
	number := func(n *int64) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	reset := "?"
	if b.ResetAt != nil {
		reset = b.ResetAt.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("%s per %s: %s of %s, reset %s", b.Unit, b.Window, number(b.Remaining), number(b.Limit), reset)
}

// longest is more than any grammar can say.
const longest = 1_000_000_000 * time.Second

// Sound returns which promises a reading breaks, whatever the response said.
func Sound(r dialect.Reading) error {
	var errs []error
	check := func(ok bool, promise string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %+v", promise, r))
		}
	}
	check(r.Class != "", "a reading has a class")
	check(r.Wait >= 0, "a wait is never negative")
	check(r.Wait <= longest, "a wait is believable")
	check(r.Told || r.Wait == 0, "what was not said is no wait")
	check(!r.Told || r.Class != dialect.OK, "a success asks no wait")
	check(!r.TooLarge || !r.Told, "waiting does not help a request that is too large")
	check(r.Wait%time.Millisecond == 0, "a wait is in whole milliseconds")
	for _, b := range r.Buckets {
		check(b.Unit != "" && b.Window != "", "a bucket has a unit and a window")
		check(b.Limit == nil || *b.Limit >= 0, "a limit is never negative")
		check(b.Remaining == nil || *b.Remaining >= 0, "a remainder is never negative")
	}
	return errors.Join(errs...)
}
