//go:build unix

package servertest_test

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/paceline-proxy/paceline/internal/servertest"
)

// tools/servers runs a command beside servers, answers as the command does, and
// leaves nothing running, be it that it was killed.
func TestScript(t *testing.T) {
	servertest.Redis(t) // or there is nothing to run
	servertest.Postgres(t)
	for _, c := range []struct {
		then string // what the command does at last
		want int
	}{
		{"exit 7", 7},
		{"kill -TERM $PPID; exit 0", 143},
		{"kill -KILL $PPID; exit 0", -1},
	} {
		cmd := exec.Command("../../tools/servers", "run", "sh", "-c", `
			echo "$PACELINE_TEST_REDIS"
			echo "$PACELINE_TEST_POSTGRES"
			read go
			`+c.then)
		cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "PACELINE_TEST_") })
		cmd.Stderr = os.Stderr
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		text := make([]byte, 1000)
		n := 0
		for strings.Count(string(text[:n]), "\n") < 2 {
			more, err := stdout.Read(text[n:])
			if n += more; err != nil {
				t.Fatalf("after %q: %v", text[:n], err)
			}
		}
		urls := strings.Fields(string(text[:n]))
		_, get := redisAt(t, urls[0])
		get("k")
		query(t, urls[1], "select '1'")

		stdin.Write([]byte("go\n"))
		cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != c.want {
			t.Errorf("%s: exit status %d, want %d", c.then, got, c.want)
		}
		for _, text := range urls {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			// Only who was killed cannot wait for their end.
			for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
				conn, err := net.Dial("tcp", u.Host)
				if err != nil {
					break
				}
				conn.Close()
				if c.want >= 0 || time.Now().After(deadline) {
					t.Errorf("%s: %s still listens", c.then, u.Host)
					break
				}
			}
		}
	}
}
