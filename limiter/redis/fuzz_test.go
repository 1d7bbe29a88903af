package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/servertest"
	"github.com/paceline-proxy/paceline/limiter"
)

// damaged is a limiter whose values a test writes.
type damaged struct {
	*Limiter
	request limiter.Request
	permit  limiter.Decision
}

// openDamaged makes one of each kind of value.
func openDamaged(t testing.TB) *damaged {
	t.Helper()
	l, err := Open(t.Context(), servertest.Redis(t), Options{Tag: fmt.Sprint("damaged", time.Now().UnixNano())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &damaged{Limiter: l}
}

func (d *damaged) fill(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	d.request = limiter.Request{Key: "caller", Hold: time.Minute, Limits: []limiter.Limit{
		{Key: "a", Calls: 50, Per: time.Second, Cost: 2, Concurrent: 9}, {Key: "a", Calls: 100, Per: time.Minute, Cost: 3},
	}}
	for _, key := range d.all() {
		if err := d.client.Do(ctx, d.client.B().Del().Key(key).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	d.epochs.latest.Store(nil)
	for range 3 {
		var err error
		if d.permit, err = d.Acquire(ctx, d.request); err != nil || !d.permit.Granted {
			t.Fatal(d.permit, err)
		}
	}
	if err := d.Throttle(ctx, "closed", time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := d.Update(ctx, "blob", func([]byte) []byte { return []byte("state") }); err != nil {
		t.Fatal(err)
	}
}

// all are the keys: of a bucket, a throttle, the epoch, a record and a blob.
func (d *damaged) all() []string {
	keys := []string{d.key(bucketKey, hashOf("a")), d.key(throttleKey, hashOf("closed")), d.tag + "epoch", d.key(blobKey, hashOf("blob"))}
	if p, ok := permitOf(d.permit.Permit); ok {
		keys = append(keys, d.recordOf(p.name))
	}
	return keys
}

// use calls everything that reads what is stored, and wants answers that make
// sense. After a damage every window is full for two minutes at most, so a
// refusal names an instant, and what is stored is sound again.
func (d *damaged) use() error {
	ctx := context.Background()
	for range 2 {
		for _, r := range []limiter.Request{d.request, {Key: "closed"}, {Key: "caller", Limits: []limiter.Limit{{Key: "a", Calls: 9, Per: time.Hour}}}} {
			a, err := d.Acquire(ctx, r)
			if err != nil {
				return fmt.Errorf("acquire: %w", err)
			}
			if !a.Granted && (!a.RetryAt.After(a.Now) || a.RetryAfter() > 250*365*24*time.Hour) {
				return fmt.Errorf("refused for %v", a.RetryAfter())
			}
		}
	}
	for name, err := range map[string]error{
		"settle":   d.Settle(ctx, d.permit.Permit, []limiter.Cost{{Key: "a", Cost: 7}}),
		"renew":    d.Renew(ctx, []string{d.permit.Permit}, time.Minute),
		"throttle": d.Throttle(ctx, "closed", time.Now().Add(time.Second)),
		"release":  d.Release(ctx, d.permit.Permit),
		"seed":     d.Seed(ctx, d.request.Limits, time.Now().Add(-time.Second)),
		"update":   d.Update(ctx, "blob", func(old []byte) []byte { return slices.Concat(old, []byte("x")) }),
		"open":     d.Open(ctx, "closed"),
	} {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if _, err := d.Peek(ctx, "closed", d.request.Limits); err != nil {
		return fmt.Errorf("peek: %w", err)
	}
	if a, err := d.Acquire(ctx, limiter.Request{Key: "closed"}); err != nil || !a.Granted {
		return fmt.Errorf("an opened key: %+v, %w", a, err)
	}
	return nil
}

func (d *damaged) get(t testing.TB, key string) string {
	t.Helper()
	s, err := d.client.Do(context.Background(), d.client.B().Get().Key(key).Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (d *damaged) put(t testing.TB, key, value string) {
	t.Helper()
	if err := d.client.Do(context.Background(), d.client.B().Set().Key(key).Value(value).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// A value that was cut, prolonged or written by somebody else begins anew and
// full, and harms nothing besides.
func TestDamage(t *testing.T) {
	d := openDamaged(t)
	for i := range 5 {
		for what, damage := range map[string]func(string) string{
			"empty":      func(string) string { return "" },
			"short":      func(s string) string { return s[:len(s)/2] },
			"a bit less": func(s string) string { return s[:len(s)-1] },
			"a bit more": func(s string) string { return s + "\x00" },
			"text":       func(string) string { return strings.Repeat("garbage ", 20) },
			"zeros":      func(s string) string { return strings.Repeat("\x00", len(s)) },
			"ones":       func(s string) string { return s[:1] + strings.Repeat("\xff", len(s)-1) },
			"another":    func(s string) string { return "\x02" + s[1:] },
		} {
			d.fill(t)
			key := d.all()[i]
			d.put(t, key, damage(d.get(t, key)))
			if i == 0 { // nobody knows what was counted
				a, err := d.Acquire(t.Context(), d.request)
				if err != nil || a.Granted || a.RetryAfter() < 50*time.Second || a.RetryAfter() > time.Minute {
					t.Errorf("a bucket that is %s: %+v, %v", what, a, err)
				}
			}
			if i == 1 && what != "a bit more" {
				a, err := d.Acquire(t.Context(), limiter.Request{Key: "closed"})
				if err != nil || a.Granted || a.RetryAfter() < 50*time.Second || a.RetryAfter() > 2*time.Minute {
					t.Errorf("a throttle that is %s: %+v, %v", what, a, err)
				}
			}
			if err := d.use(); err != nil {
				t.Errorf("key %d, %s: %v", i, what, err)
			}
		}
	}
	// Another type is no value of ours.
	for i := range 5 {
		d.fill(t)
		key := d.all()[i]
		b := d.client.B()
		for _, cmd := range [][]string{{"DEL"}, {"LPUSH"}} {
			c := b.Arbitrary(cmd...).Keys(key)
			if cmd[0] == "LPUSH" {
				c = c.Args("x")
			}
			if err := d.client.Do(t.Context(), c.Build()).Error(); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.use(); err != nil {
			t.Errorf("key %d, a list: %v", i, err)
		}
	}
}

// An entry that is older than those before it does not leave a refusal without
// an instant.
func TestEntryOutOfOrder(t *testing.T) {
	d := openDamaged(t)
	d.fill(t)
	key := d.all()[0]
	value := []byte(d.get(t, key))
	const second = 47 + 3*20 + 2*50 + 16 // of the first window
	copy(value[second:], appendDouble(appendDouble(nil, 1), 100))
	d.put(t, key, string(value))
	d.request.Limits[0].Calls = 5
	a, err := d.Acquire(t.Context(), d.request)
	if err != nil || a.Granted || a.RetryAfter() <= 0 || a.RetryAfter() > time.Second {
		t.Errorf("%+v, %v", a, err)
	}
	if err := d.use(); err != nil {
		t.Error(err)
	}
}

// No few bytes that are wrong keep a key from being used.
func TestDamagedBytes(t *testing.T) {
	d := openDamaged(t)
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, rand.Uint64()))
		d.fill(t)
		keys := d.all()
		which := min(rng.IntN(8), len(keys)-1)
		if which > 4 {
			which = 0
		}
		value := []byte(d.get(t, keys[which]))
		for range 1 + rng.IntN(4) {
			at := rng.IntN(len(value))
			if rng.IntN(2) == 0 {
				at = 46 + rng.IntN(len(value)) // past the head of a bucket
			}
			bytes := [][]byte{{byte(rng.Uint32())}, {0xff, 0xf8}, {0x7f, 0xf0}, {0, 0, 0, 0, 0, 0, 0xf8, 0x7f}, {0, 0, 0, 0, 0, 0, 0xf0, 0xff}}[rng.IntN(5)]
			copy(value[min(at, len(value)-1):], bytes)
		}
		d.put(t, keys[which], string(value))
		if err := d.use(); err != nil {
			t.Fatalf("key %d, %q: %v", which, value, err)
		}
	}
}

// FuzzStored writes bytes where the script expects its own.
func FuzzStored(f *testing.F) {
	d := openDamaged(f)
	d.fill(f)
	for i, key := range d.all() {
		f.Add(byte(i), []byte(d.get(f, key)))
	}
	f.Fuzz(func(t *testing.T, which byte, value []byte) {
		d.fill(t)
		keys := d.all()
		d.put(t, keys[int(which)%len(keys)], string(value))
		if err := d.use(); err != nil {
			t.Error(err)
		}
	})
}

// FuzzPermit: what is no permit of ours is none, and what is one is read as it
// was written. L-77.
func FuzzPermit(f *testing.F) {
	f.Add(permit{record: true}.String())
	f.Add(permit{buckets: []hash{{1}, {2}}}.String())
	f.Add("no permit at all")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := permitOf(text); ok && p.String() != text {
			t.Errorf("%q is read as %q", text, p)
		}
	})
}
