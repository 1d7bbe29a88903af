package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/paceline-proxy/paceline/internal/ptytest"
)

// L-20, L-21: a person is asked for the settings, does not see what is secret,
// and is told that the module works.
func TestConnectAtTerminal(t *testing.T) {
	b := newBox(t)
	dir := b.own(t)
	file := filepath.Join(dir, "settings.yaml")
	secret := "sqlite:" + filepath.Join(b.Dir, "hunter2.db")
	settings := func(want string) {
		t.Helper()
		got, err := os.ReadFile(file)
		if err != nil || string(got) != want {
			t.Errorf("settings are %q, %v, want %q", got, err, want)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("others can read the settings: %v, %v", info.Mode(), err)
		}
	}
	connect := func(code int, do func(*ptytest.Terminal)) {
		t.Helper()
		p := ptytest.Start(t, b.command("connect", "own"))
		do(p)
		if got := p.Wait(); got != code {
			t.Errorf("exit %d, want %d\n%s", got, code, p)
		}
		if !p.Cooked() {
			t.Error("the terminal is not as it was")
		}
		if strings.Contains(p.String(), "hunter2") {
			t.Errorf("it shows what is secret:\n%s", p)
		}
	}
	hidden := func(p *ptytest.Terminal, keys string) {
		await(t, func() bool { return !p.Cooked() })
		p.Press(keys)
	}
	// Nothing was kept before, and nothing is where it is not finished.
	connect(130, func(p *ptytest.Terminal) {
		p.Await("Where the counts are.*: ")
		hidden(p, "hunter2\x03")
	})
	if _, err := os.Stat(file); err == nil {
		t.Error("settings of somebody who changed their mind")
	}
	connect(0, func(p *ptytest.Terminal) {
		p.Await("Where the counts are.*: ")
		hidden(p, secret+"\r")
		p.Await(`Schema in Postgres.*: `)
		p.Press("\r")
		p.Await("own works, and its settings are kept in " + regexp.QuoteMeta(file) + "\r\nto use it: limiter: {url: module:own}\r\n")
	})
	settings("url: " + secret + "\n")
	// What is kept can be kept, and is for this user alone from then on.
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	connect(0, func(p *ptytest.Terminal) {
		p.Await(`Where the counts are.* \(Enter keeps it\): `)
		hidden(p, "\r")
		p.Await("Schema in Postgres.*: ")
		p.Press("\r")
	})
	settings("url: " + secret + "\n")
	// What does not work changes nothing.
	connect(1, func(p *ptytest.Terminal) {
		p.Await("Where the counts are")
		hidden(p, "-\r")
		p.Await("Schema in Postgres")
		p.Press("limits\r")
		p.Await("the limiter module own: open: invalid_params: .*the setting url is missing")
	})
	settings("url: " + secret + "\n")
}
