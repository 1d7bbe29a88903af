package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/postgres"
)

// simulate has a bucket judged at instants that a test makes up. It asks for a
// call of each cost, holds each refusal to its word, and says what was granted,
// until when what was refused has to wait, and the most entries there were.
const simulate = `
create or replace function pg_temp.simulate(limits bigint[], gaps bigint[], costs bigint[], out granted boolean[], out free bigint[], out entries integer)
language plpgsql as $$
declare
  now bigint := 1700000000000000;
  b paceline_limiter.bucket := ('00000000-0000-0000-0000-000000000001', 1, 0, 0, 0, '{}', '{}', '{}');
  c paceline_limiter.charge;
  again paceline_limiter.charge;
begin
  entries := 0;
  for i in 1 .. cardinality(gaps) loop
    now := now + gaps[i];
    for q in 5 .. cardinality(limits) by 6 loop
      limits[q] := least(costs[i], limits[q - 3]);
    end loop;
    c := paceline_limiter.charge(b, 1, limits, 1, 0, 0, now, 0, false);
    granted[i] := c.room = 1;
    free[i] := c.free;
    if c.room = 1 then
      b := c.bucket;
      for k in 1 .. cardinality(b.spans) loop
        entries := greatest(entries, cardinality((b.spans[k]).instants));
      end loop;
    else
      again := paceline_limiter.charge(b, 1, limits, 1, 0, 0, c.free - 1, 0, false);
      if again.room <> 0 then
        raise exception 'ask %: granted before the instant that was named', i;
      end if;
      again := paceline_limiter.charge(b, 1, limits, 1, 0, 0, c.free, 0, false);
      if again.room <> 1 then
        raise exception 'ask %: refused at the instant that was named', i;
      end if;
    end if;
  end loop;
end $$`

// A history is the plainest of windows.
type history []struct{ at, cost int64 }

// full says from when on a call has room, if that is not now.
func (g history) full(now, calls, per, cost int64) (free int64, full bool) {
	var used int64
	for _, e := range g {
		if e.at+per > now {
			used += e.cost
		}
	}
	for _, e := range g {
		if used+cost <= calls {
			break
		}
		if e.at+per > now {
			used -= e.cost
			free, full = e.at+per, true
		}
	}
	return free, full
}

// L-46, L-48, CC-07: whatever the spacing and the cost, no window is exceeded, and
// who is refused is told when. Up to 64 grants the answers are those of a plain
// log; beyond, they may come a 63rd of the window later, never earlier.
func TestSpansAgainstPlainLog(t *testing.T) {
	t.Parallel()
	server := database(t)
	open(t, server, postgres.Options{})
	c, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	if _, err := c.Exec(t.Context(), simulate); err != nil {
		t.Fatal(err)
	}
	merged := 0
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 46))
		type window struct{ calls, per int64 }
		short := window{1 + rng.Int64N(30), 1 + rng.Int64N(1_000_000)}
		long := window{short.calls * (1 + rng.Int64N(4)), short.per * (2 + rng.Int64N(9))}
		dearest := int64(1 + rng.IntN(4))
		if seed%2 == 1 { // so many that grants have to merge
			short.calls, long.calls = short.calls*20, long.calls*20
		}
		limits := []int64{1, short.calls, short.per, 0, 0, 0, 1, long.calls, long.per, 0, 0, 0}
		var gaps, costs []int64
		for range 1200 {
			gap := int64(rng.ExpFloat64() * float64(short.per) / float64(short.calls) / 2)
			if rng.IntN(100) == 0 {
				gap = rng.Int64N(2 * long.per)
			}
			gaps = append(gaps, gap)
			costs = append(costs, 1+rng.Int64N(dearest))
		}
		var granted []bool
		var free []int64
		var entries int
		err := c.QueryRow(t.Context(), "select * from pg_temp.simulate($1, $2, $3)", limits, gaps, costs).Scan(&granted, &free, &entries)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if entries > 64 {
			t.Errorf("seed %d: %d entries in a span", seed, entries)
		}
		var g history
		now := int64(1700000000000000)
		for i := range gaps {
			now += gaps[i]
			var want int64
			full := false
			late := int64(0)
			for _, w := range []window{short, long} {
				if at, no := g.full(now, w.calls, w.per, min(costs[i], w.calls)); no {
					want, full = max(want, at), true
				}
				late = max(late, w.per/63+1)
			}
			if entries < 64 {
				late = 0
			}
			switch {
			case granted[i] && full:
				t.Fatalf("seed %d, ask %d: granted %d µs early", seed, i, want-now)
			case !granted[i] && free[i] < want:
				t.Fatalf("seed %d, ask %d: told %d µs early", seed, i, want-free[i])
			case !granted[i] && free[i] > max(want, now)+late:
				t.Fatalf("seed %d, ask %d: told %d µs late, want at most %d", seed, i, free[i]-max(want, now), late)
			}
			if granted[i] {
				g = append(g, struct{ at, cost int64 }{now, min(costs[i], long.calls)})
			}
		}
		if entries == 64 {
			merged++
		}
	}
	if merged < 4 || merged > 20 {
		t.Errorf("grants merged in %d of 24 runs: too few, or too many", merged)
	}
}

// A refusal takes no transaction id, so it writes nothing and waits for no disk.
func TestRefusalWritesNothing(t *testing.T) {
	t.Parallel()
	server := database(t)
	l := open(t, server, postgres.Options{})
	r := limiter.Request{Key: "c", Hold: time.Hour, Limits: []limiter.Limit{{Key: "a", Calls: 1, Per: time.Hour, Cost: 1, Concurrent: 1}}}
	granted(t, l, r, true)
	granted(t, l, r, false)
	call := `begin; select array_to_string(paceline_limiter.acquire(array(select id from paceline_limiter.bucket), array[gen_random_uuid()],
		array[1, 1, 5, 7, 1, 1, %d, 3600000000, %[1]d, 1, 1], false), ' '); select pg_current_xact_id_if_assigned() is null`
	if got := ask(t, server, fmt.Sprintf(call, 1)); got != "t" {
		t.Error("a refusal has a transaction id")
	}
	if got := ask(t, server, fmt.Sprintf(call, 2)); got != "f" {
		t.Error("a grant has none: this test shows nothing")
	}
}

// A clock that steps back takes no instant back with it.
func TestClockNeverStepsBack(t *testing.T) {
	t.Parallel()
	server := database(t)
	l := open(t, server, postgres.Options{})
	r := limiter.Request{Key: "c", Limits: []limiter.Limit{{Key: "a", Calls: 2, Per: time.Minute}}}
	first := granted(t, l, r, true)
	// As if the server's clock had been half a minute ahead then.
	execute(t, server, `update paceline_limiter.bucket set last = last + 30000000,
		spans = array[row((spans[1]).per, 0, 0, 0, (spans[1]).promised, array[(spans[1]).instants[1] + 30000000], '{1}')::paceline_limiter.span]`)
	second := granted(t, l, r, true)
	if ahead := second.Now.Sub(first.Now); ahead != 30*time.Second {
		t.Errorf("the second is dated %v after the first, want 30s: not before what was counted", ahead)
	}
	d := granted(t, l, r, false)
	if left := d.RetryAfter(); left != time.Minute {
		t.Errorf("room in %v, want in a minute", left)
	}
}

// What counts no more is forgotten, what does stays.
func TestSweep(t *testing.T) {
	t.Parallel()
	server := database(t)
	l := open(t, server, postgres.Options{})
	for name, span := range map[string]time.Duration{"gone": time.Millisecond, "stays": time.Hour} {
		limits := []limiter.Limit{{Key: name, Calls: 1, Per: span}, {Key: name + " place", Concurrent: 1}}
		granted(t, l, limiter.Request{Key: name, Hold: span, Limits: limits}, true)
		if err := l.Throttle(t.Context(), name, time.Now().Add(span)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Millisecond)
	// Buckets stay for up to ten minutes more than they must.
	sweep := "update paceline_limiter.bucket set idle = idle - 600000000; select paceline_limiter.sweep(100)"
	execute(t, server, sweep)
	for table, want := range map[string]string{"bucket": "2", "permit": "1", "throttle": "1"} {
		if got := ask(t, server, "select count(*) from paceline_limiter."+table); got != want {
			t.Errorf("%s rows in %s after a sweep, want %s", got, table, want)
		}
	}
	d := granted(t, l, limiter.Request{Key: "stays", Limits: []limiter.Limit{{Key: "stays", Calls: 1, Per: time.Hour}, {Key: "new", Calls: 1, Per: time.Hour}}}, false)
	if len(d.Refused) != 2 {
		t.Errorf("refused by %+v, want the throttle and the window", d.Refused)
	}
	// One that somebody is using is left alone and held up by nobody.
	c, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "select pg_advisory_lock(uuid_hash_extended(id, 0)) from paceline_limiter.bucket"); err != nil {
		t.Fatal(err)
	}
	execute(t, server, "update paceline_limiter.bucket set idle = 0; select paceline_limiter.sweep(100)")
	if got := ask(t, server, "select count(*) from paceline_limiter.bucket"); got != "2" {
		t.Errorf("%s buckets after a sweep of locked ones, want 2", got)
	}
}

// Two schemas of one database, and two databases, count by themselves; hosts that
// name one count together (L-27).
func TestSchemasAreApart(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t)
	name := schema(t, server)
	granted(t, open(t, server, postgres.Options{Schema: name}), once, true)
	granted(t, open(t, server, postgres.Options{Schema: name}), once, false)
	granted(t, open(t, database(t), postgres.Options{Schema: name}), once, true)
}
