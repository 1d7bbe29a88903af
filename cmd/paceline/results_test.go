package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// printers are command lines that write results.
var printers = [][]string{
	{}, {"help"}, {"--help"}, {"help", "stub"}, {"demo", "--help"}, {"completion"}, {"completion", "bash"}, {"completion", "zsh"},
	{"version"}, {"version", "--json"},
	{"stub", "--json", "--listen", "127.0.0.1:0"},
	{"demo", "--duration", "1s"}, {"demo", "--duration", "1s", "--json"},
}

// broken fails every write.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestResultsThatCannotBeWritten(t *testing.T) {
	full := broken{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}}
	for _, args := range printers {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			var stderr strings.Builder
			code := run(t.Context(), args, nil, full, &stderr)
			if want := "paceline: cannot write to standard output: no space left on device\n"; code != exitFailed || !strings.HasSuffix("\n"+stderr.String(), "\n"+want) {
				t.Errorf("exit code %d, stderr %q", code, stderr.String())
			}
			if strings.Count(stderr.String(), "no space left") != 1 {
				t.Errorf("said again: %q", stderr.String())
			}
			// A reader that has seen enough is no news.
			stderr.Reset()
			code = run(t.Context(), args, nil, broken{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}}, &stderr)
			if code != exitSignal+int(syscall.SIGPIPE) || strings.Contains(stderr.String(), "paceline: ") || strings.Contains(stderr.String(), "pipe") {
				t.Errorf("closed pipe: exit code %d, stderr %q", code, stderr.String())
			}
		})
	}
}

// What was seen until a signal came is a result too.
func TestCountsThatCannotBeWritten(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted{os.Interrupt})
	for _, args := range [][]string{{"stub", "--listen", "127.0.0.1:0"}, {"demo"}} {
		var stderr strings.Builder
		if code := run(ctx, args, nil, broken{errors.New("gone")}, &stderr); code != exitFailed || !strings.Contains(stderr.String(), "standard output: gone") {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr.String())
		}
	}
}

// The same with the real program.
func TestStandardOutputOfTheProcess(t *testing.T) {
	for _, args := range printers {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			if full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0); err == nil {
				defer full.Close()
				var stderr strings.Builder
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				c := exec.CommandContext(ctx, "paceline", args...)
				c.Stdout, c.Stderr = full, &stderr
				c.Run()
				if c.ProcessState.ExitCode() != exitFailed || !strings.Contains(stderr.String(), "paceline: cannot write to standard output: ") {
					t.Errorf("full: %v, stderr %q", c.ProcessState, stderr.String())
				}
			}
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			defer w.Close()
			var stderr strings.Builder
			c := exec.CommandContext(t.Context(), "paceline", args...)
			c.Stdout, c.Stderr = w, &stderr
			c.Run()
			if c.ProcessState.Success() || strings.Contains(stderr.String(), "paceline: ") || strings.Contains(stderr.String(), "pipe") {
				t.Errorf("closed pipe: %v, stderr %q", c.ProcessState, stderr.String())
			}
		})
	}
}
