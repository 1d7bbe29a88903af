//go:build unix

package servers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
	"time"
)

// An owner is whom a server runs as that refuses to run as root.
type owner struct{ uid, gid int }

// unprivileged is the first of these users that exists, or nil where the tests
// do not run as root.
func unprivileged(names ...string) (*owner, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		return &owner{uid, gid}, errors.Join(err1, err2)
	}
	return nil, fmt.Errorf("no user of %q to run it as, and it refuses to run as root", names)
}

// attr keeps a server out of the process group of the tests, so that an
// interrupt typed at them ends it in its own way.
func (o *owner) attr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if o != nil {
		attr.Credential = &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}
	}
	return attr
}

// A run is a server that runs, and the keeper that outlives the tests to end it:
// a test binary may be killed, and has no end where something could be called.
type run struct {
	cmd    *exec.Cmd
	done   chan struct{}
	keeper *exec.Cmd
	held   io.Closer // the keeper waits until this process lets go of it
}

// $0 is the server, $1 the signal that ends it at once, $2 its directory.
// The server is waited for in vain where nobody collects orphans.
const keep = `cat >/dev/null
kill -s "$1" "$0"
for i in 1 2 3 4 5 6 7 8 9; do kill -0 "$0" && sleep 0.$i; done
rm -rf -- "$2"`

func begin(cmd *exec.Cmd, quit, dir string) (*run, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &run{cmd: cmd, done: make(chan struct{})}
	go func() { cmd.Wait(); close(r.done) }()
	r.keeper = exec.Command("sh", "-c", keep, strconv.Itoa(cmd.Process.Pid), quit, dir)
	r.keeper.Dir, r.keeper.SysProcAttr = "/", &syscall.SysProcAttr{Setpgid: true}
	held, err := r.keeper.StdinPipe()
	if err == nil {
		err = r.keeper.Start()
	}
	if err != nil {
		cmd.Process.Kill()
		return nil, err
	}
	r.held = held
	return r, nil
}

// end ends the server, and says whether it did so within half a minute. It is
// killed where it did not.
func (r *run) end(signal string) bool {
	r.keeper.Process.Kill()
	r.keeper.Wait()
	r.cmd.Process.Signal(signals[signal])
	select {
	case <-r.done:
		return true
	case <-time.After(30 * time.Second):
		r.cmd.Process.Kill()
		<-r.done
		return false
	}
}

var signals = map[string]os.Signal{"KILL": syscall.SIGKILL, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT}
