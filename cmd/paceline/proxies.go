package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/paceline-proxy/paceline/internal/home"
)

// A serving is a process that runs paceline serve.
type serving struct {
	pid int
	// home is where its home is, empty where this user may not know.
	home string
	// server is how its home records it, zero where that is not known.
	server home.Server
}

func (r serving) String() string {
	says := fmt.Sprintf("process %d", r.pid)
	if r.home != "" {
		says += " of the home " + r.home
	}
	if r.server.PID != 0 {
		says += ", at " + where(r.server) + ","
	}
	return says
}

// proxies are those that send, as far as this system shows them: not those that
// have let go of their home and only pass on answers.
func proxies() (all []serving) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, err := os.ReadFile(f)
		args := bytes.Split(line, []byte{0})
		if err != nil || len(args) < 2 || filepath.Base(string(args[0])) != "paceline" || string(args[1]) != "serve" {
			continue
		}
		r := serving{}
		if r.pid, err = strconv.Atoi(filepath.Base(filepath.Dir(f))); err != nil {
			continue
		}
		if r.home = homeOf(filepath.Dir(f)); r.home != "" {
			s, err := home.Home{Dir: r.home}.Recorded()
			switch {
			case errors.Is(err, fs.ErrNotExist), err == nil && s.PID != r.pid:
				continue
			case err == nil:
				r.server = s
			}
		}
		all = append(all, r)
	}
	return all
}

// homeOf is the home of the process in a directory of /proc.
func homeOf(process string) string {
	b, err := os.ReadFile(filepath.Join(process, "environ"))
	if err != nil {
		return ""
	}
	env := make(map[string]string)
	for v := range strings.SplitSeq(string(b), "\x00") {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	h, err := home.FindIn(func(name string) string { return env[name] })
	if err != nil {
		return ""
	}
	if filepath.IsAbs(h) {
		return h
	}
	from, err := os.Readlink(filepath.Join(process, "cwd"))
	if err != nil {
		return ""
	}
	return filepath.Join(from, h)
}
