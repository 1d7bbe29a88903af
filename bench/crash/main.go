// Command crash measures row 11 of the figures in DESIGN.md: a proxy that is
// killed at random instants under load, again and again, while the provider
// looks whether anything comes too early.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const help = `Usage, from bench/: go run ./crash [--json] [--kills 100] [--system serve|transport]

Row 11 of the figures: kill -9 at random instants under load. A stand-in
provider takes requests over real sockets and notes when each arrives; eight
clients send as fast as they are let, through a proxy that is killed and started
again. What is killed:

  serve      paceline serve, built from the directory above
  transport  a reverse proxy over paceline.Transport with a journal and a store,
             which is the least that a program of one's own would be

It is checked, by arrival at the provider and over the whole run, that
  - no 2 seconds hold more than 20 requests (declared as 20 in 2.3 seconds:
    what is on its way when a process dies may be late),
  - nothing arrives before the end of the last wait that was told (but for what
    was on its way, and for waits the killed process cannot have read any more),
  - at most 4 are at work, dead clients' requests included.
For serve, "paceline log" has to read afterwards.

`

const (
	calls    = 20
	per      = 2 * time.Second
	declared = per + 300*time.Millisecond
	places   = 4
	service  = 150 * time.Millisecond
	hold     = 300 * time.Millisecond // abortHoldMs
	onTheWay = 250 * time.Millisecond
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "proxy" {
		if err := proxy(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Usage = func() { fmt.Fprint(os.Stderr, help); flag.PrintDefaults() }
	asJSON := flag.Bool("json", false, "print one object a line")
	kills := flag.Int("kills", 100, "how often the proxy is killed")
	system := flag.String("system", "serve", "what is killed: serve or transport")
	binary := flag.String("paceline", "", "the paceline to kill, instead of one built from ..")
	seed := flag.Uint64("seed", 1, "of the instants")
	flag.Parse()
	if flag.NArg() > 0 || *kills < 1 || *system != "serve" && *system != "transport" {
		flag.Usage()
		os.Exit(2)
	}
	r, err := run(*system, *binary, *kills, rand.New(rand.NewPCG(*seed, 11)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	r.Seed = *seed
	if *asJSON {
		json.NewEncoder(os.Stdout).Encode(r)
	} else {
		fmt.Print(r)
	}
	if !r.met() {
		os.Exit(1)
	}
}

// A result is what a run came to.
type result struct {
	Row      int    `json:"row"`
	Scenario string `json:"scenario"`
	System   string `json:"system"`
	Seed     uint64 `json:"seed"`

	Kills    int     `json:"kills"`
	Answered int     `json:"answered"`
	Arrived  int     `json:"arrived"`
	Told     int     `json:"told"`  // waits
	Ratio    float64 `json:"ratio"` // of what the window allows

	PeakWindow int    `json:"peak_window"`
	PeakLive   int    `json:"peak_live"`
	Early      int    `json:"early"`
	LogRows    int    `json:"log_rows,omitempty"`
	LogError   string `json:"log_error,omitempty"`
}

func (r result) met() bool {
	return r.PeakWindow <= calls && r.PeakLive <= places && r.Early == 0 && r.LogError == "" && r.Answered > r.Kills && r.Told > 0
}

func (r result) String() string {
	verdict := "met"
	if !r.met() {
		verdict = "not met"
	}
	s := fmt.Sprintf(`%s, killed %d times: %s
  arrived            %d (%d answered, %.0f %% of what the window allows)
  most in %v         %d (at most %d)
  most at work       %d (at most %d)
  waits told         %d
  sent into a wait   %d (none)
`, r.System, r.Kills, verdict, r.Arrived, r.Answered, 100*r.Ratio, per, r.PeakWindow, calls, r.PeakLive, places, r.Told, r.Early)
	switch {
	case r.LogError != "":
		s += "  the log            " + r.LogError + "\n"
	case r.LogRows > 0:
		s += fmt.Sprintf("  rows in the log    %d\n", r.LogRows)
	}
	return s
}

// run kills a proxy under load.
func run(system, binary string, kills int, rng *rand.Rand) (result, error) {
	home, err := os.MkdirTemp("", "crash")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(home)
	provider, err := newProvider(rng.Uint64())
	if err != nil {
		return result{}, err
	}
	defer provider.close()
	victim, err := newVictim(system, binary, home, provider.address)
	if err != nil {
		return result{}, err
	}
	load := newLoad(victim.url)
	start := time.Now()
	for range kills {
		if err := victim.start(); err != nil {
			load.stop()
			return result{}, err
		}
		time.Sleep(100*time.Millisecond + time.Duration(rng.Int64N(int64(1400*time.Millisecond))))
		provider.killed(time.Now())
		victim.kill()
	}
	took := time.Since(start)
	answered := load.stop()
	time.Sleep(2 * service)

	r := provider.judge()
	r.Row, r.Scenario, r.System, r.Kills, r.Answered = 11, "kill -9", system, kills, answered
	r.Ratio = float64(r.Arrived) / (float64(calls) * float64(took) / float64(declared))
	if system == "serve" {
		r.LogRows, err = victim.log()
		if err != nil {
			r.LogError = err.Error()
		}
	}
	return r, nil
}

// build makes the paceline of the directory above.
func build(home string) (string, error) {
	path := filepath.Join(home, "paceline")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/paceline")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building paceline: %w\n%s", err, out)
	}
	return path, nil
}
