package limitertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A RaceHarness says how several processes come to share a limiter.
type RaceHarness struct {
	// Store makes the store and says where it is: a URL, a path. It is called
	// once, in the process of the test.
	Store func(*testing.T) string
	// Open opens a limiter over the store, in each of the processes.
	Open func(t *testing.T, store string) limiter.Limiter
	// Processes is how many there are. 0 is 3.
	Processes int
	// For is how long they ask. 0 is 2 seconds.
	For time.Duration
	// Tolerance is by how much the limiter rounds its instants.
	Tolerance time.Duration
}

// Race lets several processes of the operating system ask one limiter at once
// and looks through all that was granted (CC-25): by the limiter's own instants no
// window may have held more than its calls and no bucket more than its places,
// and most of what fits must have been granted.
//
// The processes are the test's binary, run again for this test alone: what comes
// before the call of Race in a test happens in each of them.
func Race(t *testing.T, h RaceHarness) {
	t.Helper()
	if h.Processes == 0 {
		h.Processes = 3
	}
	if h.For == 0 {
		h.For = 2 * time.Second
	}
	if path := os.Getenv(raceResult); path != "" {
		h.contend(t, path)
		return
	}
	if err := h.race(t); err != nil {
		t.Fatal(err)
	}
}

// What the processes are told in their environment: where to leave what they
// were granted, and where the store is.
const (
	raceResult = "PACELINE_RACE_RESULT"
	raceStore  = "PACELINE_RACE_STORE"
)

// raceReady is the line by which a process says that it has opened the limiter.
const raceReady = "paceline: ready to race"

// A contest is what processes ask for again and again.
type contest struct {
	limits []limiter.Limit
	cost   int
	batch  int           // how many at once
	work   time.Duration // until its places are released; 0 lets them lapse
}

// raceHold is how long places are kept that nobody releases.
const raceHold = 150 * time.Millisecond

// contests are over buckets of one run. A bucket has the same windows and places
// wherever it is named, so that what was granted can be judged afterwards.
func contests(run string) []contest {
	a := limiter.Limit{Key: run + "a", Calls: 40, Per: 500 * time.Millisecond}
	short := limiter.Limit{Key: run + "a", Calls: 15, Per: 150 * time.Millisecond}
	b := limiter.Limit{Key: run + "b", Calls: 30, Per: 300 * time.Millisecond}
	tokens := limiter.Limit{Key: run + "tokens", Calls: 5000, Per: 400 * time.Millisecond, Cost: 450}
	places := limiter.Limit{Key: run + "places", Concurrent: 3}
	return []contest{
		{limits: []limiter.Limit{a, short}},
		{limits: []limiter.Limit{b, short, a}, cost: 3},
		{limits: []limiter.Limit{places, b, tokens}, work: 20 * time.Millisecond},
		{limits: []limiter.Limit{places}, work: 5 * time.Millisecond},
		{limits: []limiter.Limit{places}},
		{limits: []limiter.Limit{b}, batch: 6},
		{limits: []limiter.Limit{tokens}},
	}
}

// A tally is what one process brings back, by the limiter's instants.
type tally struct {
	Grants      []grant
	First, Last time.Time // answers
}

type grant struct {
	Contest int
	At      time.Time
	Until   time.Time // when its places were still held for certain
}

func (h RaceHarness) race(t *testing.T) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	store, dir := h.Store(t), t.TempDir()
	name := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	ctx, cancel := context.WithTimeout(t.Context(), h.For+time.Minute)
	defer cancel()
	processes := make([]process, h.Processes)
	for i := range processes {
		p := &processes[i]
		p.result = filepath.Join(dir, fmt.Sprint(i))
		cmd := exec.CommandContext(ctx, program, "-test.run="+name, "-test.count=1")
		cmd.Env = append(os.Environ(), raceResult+"="+p.result, raceStore+"="+store)
		if err := p.start(cmd); err != nil {
			return err
		}
	}
	// All begin together, once they have opened it.
	for i := range processes {
		processes[i].ready()
	}
	for _, p := range processes {
		p.stdin.Close()
	}
	tallies := make([]tally, h.Processes)
	var errs []error
	for i := range processes {
		if err := processes[i].wait(&tallies[i]); err != nil {
			errs = append(errs, fmt.Errorf("process %d of %d: %w", i+1, h.Processes, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return judgeRace(tallies, contests(""), h.Tolerance)
}

// A process is one of those that race, as the test sees it.
type process struct {
	*exec.Cmd
	result string
	stdin  io.Closer
	stdout *bufio.Reader
	said   bytes.Buffer
}

func (p *process) start(cmd *exec.Cmd) error {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	p.Cmd, p.stdin, p.stdout = cmd, stdin, bufio.NewReader(stdout)
	return cmd.Start()
}

// ready waits until the process has opened the limiter, or has ended.
func (p *process) ready() {
	for {
		line, err := p.stdout.ReadString('\n')
		if err != nil || strings.TrimSpace(line) == raceReady {
			return
		}
		p.said.WriteString(line)
	}
}

func (p *process) wait(t *tally) error {
	p.said.ReadFrom(p.stdout)
	if err := p.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, &p.said)
	}
	f, err := os.Open(p.result)
	if err != nil {
		return fmt.Errorf("it has not raced: %w: %s", err, &p.said)
	}
	defer f.Close()
	return gob.NewDecoder(f).Decode(t)
}

// contend is what one of the processes does.
func (h RaceHarness) contend(t *testing.T, result string) {
	l := h.Open(t, os.Getenv(raceStore))
	os.Stdout.WriteString("\n" + raceReady + "\n")
	io.Copy(io.Discard, os.Stdin)

	c := contender{Limiter: l, t: t, contests: contests(filepath.Dir(result) + "/")}
	end := time.Now().Add(h.For)
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for time.Now().Before(end) && t.Context().Err() == nil {
				if err := c.ask(rand.IntN(len(c.contests))); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(rand.N(3 * time.Millisecond))
			}
		})
	}
	asking.Wait()
	c.working.Wait()
	f, err := os.Create(result)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(gob.NewEncoder(f).Encode(c.tally), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A contender keeps what its process is granted.
type contender struct {
	limiter.Limiter
	t        *testing.T
	contests []contest
	working  sync.WaitGroup

	mu sync.Mutex
	tally
}

func (c *contender) ask(i int) error {
	asked := c.contests[i]
	rs := make([]limiter.Request, max(1, asked.batch))
	for j := range rs {
		rs[j] = limiter.Request{Key: "racer", Limits: asked.limits, Cost: asked.cost, Hold: raceHold}
	}
	ds, err := limiter.AcquireBatch(context.Background(), c.Limiter, rs)
	if err != nil {
		return err
	}
	for _, d := range ds {
		n := c.note(i, d)
		if d.Granted && asked.work > 0 {
			c.working.Go(func() {
				time.Sleep(asked.work)
				c.finish(n)
				if err := c.Release(context.Background(), d.Permit); err != nil {
					c.t.Error(err)
				}
			})
		}
	}
	return nil
}

// note keeps an answer, and says which grant it is, if it is one.
func (c *contender) note(i int, d limiter.Decision) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.First.IsZero() || d.Now.Before(c.First) {
		c.First = d.Now
	}
	if d.Now.After(c.Last) {
		c.Last = d.Now
	}
	if d.Granted {
		c.Grants = append(c.Grants, grant{Contest: i, At: d.Now, Until: d.Now.Add(raceHold)})
	}
	return len(c.Grants) - 1
}

// finish notes that a grant is about to be released: its places were held when
// the limiter named the last instant that is known here, if at none later.
func (c *contender) finish(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := &c.Grants[n]; c.Last.Before(g.Until) {
		g.Until = c.Last
	}
}

// judgeRace says which limits were broken, and which were not used.
func judgeRace(tallies []tally, contests []contest, tolerance time.Duration) error {
	var all []grant
	first, last := tallies[0].First, tallies[0].Last
	for i, t := range tallies {
		if len(t.Grants) == 0 {
			return fmt.Errorf("process %d of %d was granted nothing", i+1, len(tallies))
		}
		all = append(all, t.Grants...)
		if t.First.Before(first) {
			first = t.First
		}
		if t.Last.After(last) {
			last = t.Last
		}
	}
	slices.SortStableFunc(all, func(a, b grant) int { return a.At.Compare(b.At) })
	var errs []error
	judged := map[limiter.Limit]bool{}
	for _, c := range contests {
		for _, l := range c.limits {
			if judged[l] {
				continue
			}
			judged[l] = true
			if l.Concurrent > 0 {
				errs = append(errs, judgePlaces(all, contests, l, tolerance, last.Sub(first)))
			} else {
				errs = append(errs, judgeWindow(all, contests, l, tolerance, last.Sub(first)))
			}
		}
	}
	return errors.Join(errs...)
}

// costIn is what a grant counts in a window, 0 where it does not name it.
func (g grant) costIn(contests []contest, l limiter.Limit) int {
	c := contests[g.Contest]
	if !slices.Contains(c.limits, l) {
		return 0
	}
	return min(limiter.Request{Cost: c.cost}.CostOf(l), l.Calls)
}

func judgeWindow(all []grant, contests []contest, l limiter.Limit, tolerance, span time.Duration) error {
	used, most, sum, left := 0, 0, 0, 0
	for _, g := range all {
		sum += g.costIn(contests, l)
		used += g.costIn(contests, l)
		for ; g.At.Sub(all[left].At) >= l.Per-tolerance; left++ {
			used -= all[left].costIn(contests, l)
		}
		most = max(most, used)
	}
	fits := float64(l.Calls) * float64(span) / float64(l.Per)
	switch {
	case most > l.Calls:
		return fmt.Errorf("bucket %q: a cost of %d within %v, want at most %d", l.Key, most, l.Per, l.Calls)
	case float64(sum) < 0.6*fits:
		return fmt.Errorf("bucket %q: a cost of %d in %v, where %.0f fit", l.Key, sum, span, fits)
	}
	return nil
}

func judgePlaces(all []grant, contests []contest, l limiter.Limit, tolerance, span time.Duration) error {
	var until []time.Time // of those held
	var sum time.Duration
	most := 0
	for _, g := range all {
		if !slices.Contains(contests[g.Contest].limits, l) {
			continue
		}
		until = slices.DeleteFunc(until, func(end time.Time) bool { return !end.Add(-tolerance).After(g.At) })
		until = append(until, g.Until)
		most = max(most, len(until))
		sum += g.Until.Sub(g.At)
	}
	fits := time.Duration(l.Concurrent) * span
	switch {
	case most > l.Concurrent:
		return fmt.Errorf("bucket %q: %d places held at once, want at most %d", l.Key, most, l.Concurrent)
	case sum < fits/2:
		return fmt.Errorf("bucket %q: places held for %v, where %v fit", l.Key, sum, fits)
	}
	return nil
}
