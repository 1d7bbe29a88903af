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
	"sync/atomic"
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
	// For is how long they ask. 0 is 2 seconds. Where the machine is so busy that
	// none has been refused by then, they go on for up to five times as long.
	For time.Duration
	// Tolerance is by how much the limiter rounds its instants.
	Tolerance time.Duration
	// Late is by which part of a window's span it may make room later than exact,
	// once more is in the window than it keeps one by one.
	Late float64
}

// Race lets several processes of the operating system ask one limiter at once
// and looks through all that was answered (CC-25): by the limiter's own instants no
// window may have held more than its calls and no bucket more than its places,
// and nobody may have been refused for whom there was room.
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
	many := limiter.Limit{Key: run + "many", Calls: 90, Per: 900 * time.Millisecond}
	places := limiter.Limit{Key: run + "places", Concurrent: 3}
	return []contest{
		{limits: []limiter.Limit{a, short}},
		{limits: []limiter.Limit{b, short, a}, cost: 3},
		{limits: []limiter.Limit{places, b, tokens}, work: 20 * time.Millisecond},
		{limits: []limiter.Limit{places}, work: 5 * time.Millisecond},
		{limits: []limiter.Limit{places}},
		{limits: []limiter.Limit{b}, batch: 6},
		{limits: []limiter.Limit{tokens}},
		{limits: []limiter.Limit{many}},
		{limits: []limiter.Limit{many}},
	}
}

// An answer is what one process was told, by the limiter's instants.
type answer struct {
	Contest int
	Granted bool
	At      time.Time
	// Until when the places of a grant were held for certain, and when they were
	// certainly free.
	Held, Free time.Time
}

func (h RaceHarness) race(t *testing.T) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	store, dir := h.Store(t), t.TempDir()
	name := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	ctx, cancel := context.WithTimeout(t.Context(), 5*h.For+time.Minute)
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
	answers := make([][]answer, h.Processes)
	var errs []error
	for i := range processes {
		if err := processes[i].wait(&answers[i]); err != nil {
			errs = append(errs, fmt.Errorf("process %d of %d: %w", i+1, h.Processes, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return judge{contests: contests(""), tolerance: h.Tolerance, late: h.Late}.race(answers)
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

func (p *process) wait(answers *[]answer) error {
	p.said.ReadFrom(p.stdout)
	if err := p.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, &p.said)
	}
	f, err := os.Open(p.result)
	if err != nil {
		return fmt.Errorf("it has not raced: %w: %s", err, &p.said)
	}
	defer f.Close()
	return gob.NewDecoder(f).Decode(answers)
}

// contend is what one of the processes does.
func (h RaceHarness) contend(t *testing.T, result string) {
	l := h.Open(t, os.Getenv(raceStore))
	os.Stdout.WriteString("\n" + raceReady + "\n")
	io.Copy(io.Discard, os.Stdin)

	c := contender{Limiter: l, t: t, contests: contests(filepath.Dir(result) + "/")}
	begun := time.Now()
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for time.Since(begun) < h.For || time.Since(begun) < 5*h.For && !c.refused.Load() {
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
	if err := errors.Join(gob.NewEncoder(f).Encode(c.answers), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A contender keeps what its process is told.
type contender struct {
	limiter.Limiter
	t        *testing.T
	contests []contest
	working  sync.WaitGroup
	refused  atomic.Bool

	mu       sync.Mutex
	answers  []answer
	latest   time.Time // instant that the limiter has named
	released []int     // answers whose places are free by the next answer
}

func (c *contender) ask(i int) error {
	asked := c.contests[i]
	rs := make([]limiter.Request, max(1, asked.batch))
	for j := range rs {
		rs[j] = limiter.Request{Key: "racer", Limits: asked.limits, Cost: asked.cost, Hold: raceHold}
	}
	c.mu.Lock()
	released := c.released
	c.released = nil
	c.mu.Unlock()
	ds, err := limiter.AcquireBatch(context.Background(), c.Limiter, rs)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range released {
		c.answers[n].Free = ds[0].Now
	}
	for _, d := range ds {
		n, lapse := len(c.answers), d.Now.Add(raceHold)
		c.answers = append(c.answers, answer{Contest: i, Granted: d.Granted, At: d.Now, Held: lapse, Free: lapse})
		if d.Now.After(c.latest) {
			c.latest = d.Now
		}
		if !d.Granted {
			c.refused.Store(true)
			break // those after it were not judged
		}
		if asked.work > 0 {
			c.working.Go(func() {
				time.Sleep(asked.work)
				c.release(n, d.Permit)
			})
		}
	}
	return nil
}

// release gives back the places of a grant. They were held when the limiter named
// the latest instant that is known before, and are free when it answers whoever
// asks afterwards.
func (c *contender) release(n int, permit string) {
	c.mu.Lock()
	if a := &c.answers[n]; c.latest.Before(a.Held) {
		a.Held = c.latest
	}
	c.mu.Unlock()
	err := c.Release(context.Background(), permit)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released = append(c.released, n); err != nil {
		c.t.Error(err)
	}
}

// A judge knows what the contests allow.
type judge struct {
	contests  []contest
	tolerance time.Duration
	late      float64
	grants    []answer // in order
}

// race says how the answers of processes break the contests' limits, or give less
// than they allow.
func (j judge) race(processes [][]answer) error {
	var refusals []answer
	for i, answers := range processes {
		n := len(j.grants)
		for _, a := range answers {
			if a.Granted {
				j.grants = append(j.grants, a)
			} else {
				refusals = append(refusals, a)
			}
		}
		if len(j.grants) == n {
			return fmt.Errorf("process %d of %d was granted nothing", i+1, len(processes))
		}
	}
	if len(refusals) == 0 {
		return fmt.Errorf("%d calls were granted and none refused", len(j.grants))
	}
	slices.SortStableFunc(j.grants, func(a, b answer) int { return a.At.Compare(b.At) })
	judged := map[limiter.Limit]bool{}
	for _, c := range j.contests {
		for _, l := range c.limits {
			if !judged[l] {
				judged[l] = true
				if most, fit := j.most(l); most > fit {
					return fmt.Errorf("%d of %d in %+v", most, fit, l)
				}
			}
		}
	}
	for _, r := range refusals {
		if c := j.contests[r.Contest]; !slices.ContainsFunc(c.limits, func(l limiter.Limit) bool { return j.full(l, c, r.At) }) {
			return fmt.Errorf("refused at %v, though there was room in all of %+v", r.At, c.limits)
		}
	}
	return nil
}

// costIn is what a contest's calls count in a limit: in its window, or places.
func (c contest) costIn(l limiter.Limit) int {
	switch {
	case !slices.Contains(c.limits, l):
		return 0
	case l.Concurrent > 0:
		return 1
	}
	return min(limiter.Request{Cost: c.cost}.CostOf(l), l.Calls)
}

// most is how much of a limit was used at once, and how much there is.
func (j judge) most(l limiter.Limit) (most, fit int) {
	for i, g := range j.grants {
		used := 0
		for _, earlier := range j.grants[:i+1] {
			end := earlier.Held
			if l.Concurrent == 0 {
				end = earlier.At.Add(l.Per)
			}
			if end.Add(-j.tolerance).After(g.At) {
				used += j.contests[earlier.Contest].costIn(l)
			}
		}
		most = max(most, used)
	}
	return most, l.Calls + l.Concurrent
}

// full says whether a limit may have had no room for a contest at an instant.
func (j judge) full(l limiter.Limit, c contest, at time.Time) bool {
	used := 0
	for _, g := range j.grants {
		end := g.Free
		if l.Concurrent == 0 {
			end = g.At.Add(l.Per + time.Duration(j.late*float64(l.Per)))
		}
		if !g.At.Add(-j.tolerance).After(at) && end.Add(j.tolerance).After(at) {
			used += j.contests[g.Contest].costIn(l)
		}
	}
	return used+c.costIn(l) > l.Calls+l.Concurrent
}
