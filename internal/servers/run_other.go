//go:build !unix

package servers

import (
	"errors"
	"os/exec"
	"syscall"
)

type owner struct{ uid, gid int }

func unprivileged(...string) (*owner, error) { return nil, nil }

func (*owner) attr() *syscall.SysProcAttr { return nil }

type run struct{ done chan struct{} }

func begin(*exec.Cmd, string, string) (*run, error) {
	return nil, errors.New("tests start servers on Unix only; elsewhere name them in PACELINE_TEST_REDIS and PACELINE_TEST_POSTGRES")
}

func (*run) end(string) bool { return true }
