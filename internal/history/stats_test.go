package history_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/internal/history"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

func stats(t *testing.T, path string, q paceline.StatsQuery) *paceline.Stats {
	t.Helper()
	s, err := newReader(t, path).Stats(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// P-136, P-137, P-138, P-139, P-140, P-141, P-142, P-143, P-144, P-145, P-146,
// P-147, P-148, P-149, P-152: the statistics of a log are those of its
// records, though it is read by the columns that they need.
//
// langfuse/langfuse#9038: refusals cost no tokens. linkerd/linkerd2#2016: the
// fates exclude each other and add up.
func TestStatsOfTheLogAreThoseOfItsRecords(t *testing.T) {
	rows := []paceline.Record{
		sent(0, 429, under(true)), sent(1, 429, under(true), retry), sent(2, 429, under(false), retry), sent(3, 429, retry),
		sent(4, 200, retry, func(r *paceline.Record) { r.InTokens, r.OutTokens, r.Tier, r.Queued = 1000, 50, "small", 3*time.Second }),
		sent(5, 500, func(r *paceline.Record) { r.Class = dialect.Unavailable }),
		sent(6, 504, func(r *paceline.Record) { r.Timeout = true }),
		sent(7, 499, func(r *paceline.Record) { r.Aborted = true }),
		sent(8, 200, func(r *paceline.Record) { r.Error = "the answer was cut" }),
		sent(9, 429, func(r *paceline.Record) { r.NotSent, r.Sent, r.Attempt = true, time.Time{}, 0 }),
		sent(10, 200, func(r *paceline.Record) { r.Cache, r.Tier, r.Saved = true, "large", 3 }),
		sent(11, 403, under(true), func(r *paceline.Record) { r.Class = dialect.RateLimited }),
		sent(12, 200, func(r *paceline.Record) { r.Provider, r.Model = "q", "a/b" }),
		sent(13, 200, func(r *paceline.Record) { r.Sent, r.Arrived = time.Time{}, time.Time{} }),
		sent(7200, 200, func(r *paceline.Record) { r.Account, r.Credential, r.Scope = "a", "c", "s" }),
	}
	limits := []paceline.Provider{{Name: "p", Limits: paceline.Limits{MaxPerMinute: 3, MaxConcurrent: 2}}, {Name: "q"}}
	path := logOf(t, rows...)
	declare(t, path, limits)
	q := paceline.StatsQuery{Since: noon, Until: noon.Add(24 * time.Hour)}
	got := stats(t, path, q)
	q.Limits = map[string]paceline.Limits{"p": limits[0].Limits, "q": {}}
	if got, want := asJSON(t, got), asJSON(t, q.Report(slices.Values(rows))); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	total := got.Total
	if total.Sent != total.OK+total.R429+total.Err+total.Timeout || total.InTokens != 1000 || total.R429 != 5 || total.Retry != 4 {
		t.Errorf("%+v", total)
	}
}

func retry(r *paceline.Record) { r.Retry, r.Attempt = true, 2 }

func under(limit bool) func(*paceline.Record) {
	return func(r *paceline.Record) { r.Evidence = &paceline.Evidence{UnderLimit: limit, Sent60s: 1, Sent1s: 1, Factor: 1} }
}

func declare(t *testing.T, path string, ps []paceline.Provider) {
	t.Helper()
	l := newLog(t, path, history.Options{KeepDays: 1 << 20})
	l.Declare(ps)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// P-132, P-133, P-134, P-135, P-150, P-155: one provider or all, and the
// period.
func TestStatsQueries(t *testing.T) {
	path := logOf(t, sent(-1, 200), sent(0, 200), sent(3599, 200), sent(3600, 200),
		sent(10, 200, func(r *paceline.Record) { r.Provider = "q" }))
	for _, c := range []struct {
		query paceline.StatsQuery
		want  string
	}{
		{paceline.StatsQuery{}, "p/m:4 q/m:1 2026-11-29:5"},
		{paceline.StatsQuery{Since: noon, Until: noon.Add(time.Hour)}, "p/m:2 q/m:1 2026-11-29T12:00Z:3"},
		{paceline.StatsQuery{Provider: "q", Since: noon, Until: noon.Add(time.Hour)}, "q/m:1 2026-11-29T12:00Z:1"},
		{paceline.StatsQuery{Provider: "p", Since: noon.Add(-time.Hour), Until: noon.Add(2 * time.Hour)},
			"p/m:4 2026-11-29T11:00Z:1 2026-11-29T12:00Z:2 2026-11-29T13:00Z:1"},
	} {
		var words []string
		s := stats(t, path, c.query)
		for _, r := range slices.Concat(s.Models, s.Hours) {
			words = append(words, r.Key+":"+asJSON(t, r.Sent))
		}
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.query, got, c.want)
		}
	}
}

// P-157, P-121, P-122: a refusal without evidence is judged by the starts
// before it, those before the period too, and by the declared limits, which
// the log holds.
func TestStatsJudgeByTheLog(t *testing.T) {
	plain := func(s float64, status int) paceline.Record { return sent(s, status) }
	path := logOf(t, plain(-3, 200), plain(-2, 200), plain(-1, 200), plain(3, 429), plain(70, 429))
	for _, c := range []struct {
		perMinute, under int
	}{{0, 2}, {3, 1}, {4, 2}} {
		declare(t, path, []paceline.Provider{{Name: "p", Limits: paceline.Limits{MaxPerMinute: c.perMinute}}})
		s := stats(t, path, paceline.StatsQuery{Provider: "p", Since: noon, Until: noon.Add(time.Hour)})
		if s.Total.R429 != 2 || s.Total.R429UnderLimit != c.under || s.Limits["p"].MaxPerMinute != c.perMinute {
			t.Errorf("%d a minute: %d of %d under limit, want %d; limits %+v", c.perMinute, s.Total.R429UnderLimit, s.Total.R429, c.under, s.Limits)
		}
	}
	// What is not declared any more is not kept.
	declare(t, path, []paceline.Provider{})
	if l, err := newReader(t, path).Limits(context.Background()); err != nil || len(l) != 0 {
		t.Error(l, err)
	}
}

// P-44, P-111, P-112, P-114, P-115, P-116, P-118, P-159, P-163: a bucket of
// three meets burst pacing at 15 a minute, and the log tells what happened:
// one row for each arrival at the provider, each with its send time, each
// refusal with its evidence.
//
// BerriAI/litellm#16752: why a request was repeated is in its rows.
func TestTheLogOfATransport(t *testing.T) {
	path := t.TempDir() + "/log.db"
	l := newLog(t, path, history.Options{KeepDays: 1 << 20})
	var counts stub.Counts
	synctest.Test(t, func(t *testing.T) {
		provider, err := stub.New(stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: 15, Per: time.Minute, Burst: 3}}})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &paceline.Transport{
			Base: provider, Limiter: memory.New(), Log: l.Add,
			Providers: []paceline.Provider{{Name: "p", BaseURL: "http://stub.invalid/v1", Dialect: "openai",
				Limits: paceline.Limits{MaxPerMinute: 15, Pacing: paceline.Burst, Adaptive: paceline.Adaptive{Off: true}}}},
		}}
		for range 8 {
			go func() {
				res, err := client.Post("http://stub.invalid/v1/chat/completions", "application/json", strings.NewReader(`{"model":"stub-1","messages":[]}`))
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}()
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		counts = provider.Counts()
	})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	rows := records(t, path, history.Query{})
	refused, attempts := 0, make(map[string][]int)
	for i, r := range rows {
		if r.Sent.IsZero() || r.Done.Before(r.Sent) {
			t.Errorf("row %d was sent at %v and done at %v", i, r.Sent, r.Done)
		}
		attempts[r.ID] = append(attempts[r.ID], r.Attempt)
		if r.Status != 429 {
			continue
		}
		refused++
		in := func(per time.Duration) (n int) {
			for _, other := range rows {
				if other.Sent.After(r.Done.Add(-per)) && !other.Sent.After(r.Done) {
					n++
				}
			}
			return n
		}
		if e := r.Evidence; e == nil || !e.UnderLimit || e.Sent60s != in(time.Minute) || e.Sent1s != in(time.Second) {
			t.Errorf("row %d: evidence %+v, want %d in a minute and %d in a second", i, r.Evidence, in(time.Minute), in(time.Second))
		}
	}
	if refused == 0 || refused != int(counts.Refused) || len(rows) != int(counts.Admitted+counts.Refused) {
		t.Errorf("%d rows, %d of them refused; the provider says %+v", len(rows), refused, counts)
	}
	for id, list := range attempts {
		for i, n := range list {
			if n != i+1 {
				t.Errorf("request %s has attempts %v", id, list)
			}
		}
	}
	s := stats(t, path, paceline.StatsQuery{})
	if s.Total.OK != 8 || s.Total.R429 != refused || s.Total.R429UnderLimit != refused || s.Total.Sent != len(rows) {
		t.Errorf("%+v", s.Total)
	}
}
