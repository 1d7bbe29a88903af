package clients

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// loading bounds how many SDKs load at once: it is all they use a CPU for, and
// tests that time an answer run beside it.
var loading = make(chan struct{}, 2)

// node makes an sdk of one for Node, in a process of its own.
func node(name string) func(*testing.T, job) func() []result {
	return func(t *testing.T, j job) func() []result {
		t.Helper()
		needNode(t)
		installed(t, &sdksForNode)
		j.SDK = name
		what, err := json.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		client := exec.CommandContext(t.Context(), "node", "client.mjs", string(what))
		client.Dir = sdksForNode.folder
		client.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
		client.Stderr = os.Stderr
		begin, err := client.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := client.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		loading <- struct{}{}
		defer func() { <-loading }()
		if err := client.Start(); err != nil {
			t.Fatal(err)
		}
		// The pipe is closed with the process; a test that failed before has
		// its context to end it.
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("%s did not load: %q, %v", name, line, err)
		}
		return func() (got []result) {
			begin.Close()
			text, err := io.ReadAll(lines)
			if err := errors.Join(err, client.Wait()); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := json.Unmarshal(text, &got); err != nil || len(got) != len(j.Asks) {
				t.Fatalf("%s printed %q: %v", name, text, err)
			}
			return got
		}
	}
}

// needNode skips a test where there is no Node, which CI must have.
func needNode(t *testing.T) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%v: CI runs the clients for Node, so it needs Node 20 or newer with npm", err)
			}
			t.Skipf("%v: the clients for Node are not tested; install Node 20 or newer with npm", err)
		}
	}
}

// packages are a folder of npm packages, installed once from its lock file.
type packages struct {
	folder string
	once   sync.Once
	err    error
}

var sdksForNode = packages{folder: "node"}

func installed(t *testing.T, p *packages) {
	t.Helper()
	p.once.Do(func() { p.err = p.install() })
	if p.err != nil {
		t.Fatal(p.err)
	}
}

// install runs npm unless what is there came from the lock file as it is.
func (p *packages) install() error {
	lock, err := os.ReadFile(filepath.Join(p.folder, "package-lock.json"))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(lock)
	stamp := filepath.Join(p.folder, "node_modules", ".lock-sha256")
	if is, err := os.ReadFile(stamp); err == nil && string(is) == hex.EncodeToString(sum[:]) {
		return nil
	}
	npm := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--no-update-notifier", "--prefer-offline", "--loglevel=error")
	npm.Dir = p.folder
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("installing the npm packages of clients/%s (npm ci: %w):\n%s\nnpm needs its registry, or a cache that holds the packages", p.folder, err, out)
	}
	return os.WriteFile(stamp, []byte(hex.EncodeToString(sum[:])), 0o644)
}
