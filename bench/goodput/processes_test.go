package goodput

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/budget/file"
	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/stub"
)

var manyProcesses = flag.Bool("processes", false, "check eight processes with files alone over real sockets, which takes about 80 seconds")

// The environment by which this program, started again, is one of the
// processes: where the provider is, where the files are, and until when.
const (
	envURL = "GOODPUT_PROCESS_URL"
	envDir = "GOODPUT_PROCESS_DIR"
	envEnd = "GOODPUT_PROCESS_END"
)

func TestMain(m *testing.M) {
	if os.Getenv(envURL) != "" {
		if err := process(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is one of several on a key: a Transport of its own with the files.
func process() error {
	end, err := time.Parse(time.RFC3339Nano, os.Getenv(envEnd))
	if err != nil {
		return err
	}
	store, err := file.Open(os.Getenv(envDir))
	if err != nil {
		return err
	}
	url := os.Getenv(envURL)
	t := &paceline.Transport{
		Limiter: memory.New(), Store: store,
		Providers: []paceline.Provider{{Name: "provider", BaseURL: url, Dialect: "openai"}},
		Route:     func(*http.Request) ([]paceline.Route, error) { return []paceline.Route{{Provider: "provider"}}, nil },
	}
	ctx, stop := context.WithDeadline(context.Background(), end)
	defer stop()
	for range 6 {
		go func() {
			l := load{asks: Scenario{}.newAsks(), url: url}
			for ctx.Err() == nil {
				// Not its context: a deadline that a system sees may be refused.
				if !l.task(context.Background(), t) {
					_ = sleep(ctx, regret)
				}
			}
		}()
	}
	<-ctx.Done()
	return nil
}

// TestProcesses is the row of eight processes once with processes, sockets and
// files, in real time. It asserts nothing: a busy machine is late.
func TestProcesses(t *testing.T) {
	if !*manyProcesses {
		t.Skip("a measurement in real time: give -args -processes")
	}
	minutes := scenario("bucket 60/min", processesFigure, stub.Meter{Kind: stub.Bucket, Limit: 60, Per: minute})
	report := Report{Results: make([][]Result, 2)}
	t.Run("both", func(t *testing.T) {
		for i, s := range []Scenario{minutes, ofTen()} {
			s = s.told(stub.HeadersOpenAI, ways[2])
			s.Name += ", sockets and files"
			s.Jitter = 0 // there are real ones
			report.Rows = append(report.Rows, Row{"2", s.Name, processesFigure, Trial{
				Scenario: s, System: Processes, Seed: 1, From: 20 * second, To: 80 * second,
			}, 0})
			row := report.Rows[i]
			t.Run(s.Name, func(t *testing.T) {
				t.Parallel()
				// The refill of a minute needs no playing.
				report.Results[i] = []Result{row.result(overProcesses(t, row.Trial), s.Meters[0].Limit)}
			})
		}
	})
	write := report.WriteTable
	if *lines {
		write = report.WriteJSON
	}
	if err := write(os.Stdout); err != nil {
		t.Error(err)
	}
}

// overProcesses runs the trial with real processes.
func overProcesses(t *testing.T, trial Trial) (o Outcome) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	provider := must(stub.New(trial.Scenario.config(stub.RetryAfterSeconds, trial.Seed)))
	server := httptest.NewServer(provider)
	defer server.Close()
	start, dir := time.Now(), t.TempDir()
	for range processes {
		child := exec.CommandContext(t.Context(), self)
		child.Env = append(os.Environ(), envURL+"="+server.URL+"/v1", envDir+"="+dir, envEnd+"="+start.Add(trial.To).Format(time.RFC3339Nano))
		child.Stderr = os.Stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := child.Wait(); err != nil {
				t.Error(err)
			}
		}()
	}
	time.Sleep(time.Until(start.Add(trial.To)))
	o.count(provider, start.Add(trial.From), start.Add(trial.To))
	return o
}
