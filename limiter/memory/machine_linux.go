package memory

import (
	"os"
	"strings"
	"syscall"
	"time"
)

const clockRealtime = 0

// thisMachine is the one this process runs on. In a testing/synctest bubble,
// where instants are not the machine's, it has no run that could be known again.
func thisMachine() machine {
	m := machine{suspended: suspended, boot: func() int64 { t, _ := gettime(clockBoottime); return t }}
	wall, ok := gettime(clockRealtime)
	if off := time.Since(time.Unix(0, wall)).Abs(); !ok || off > time.Hour {
		return m
	}
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		m.bootID = strings.TrimSpace(string(id))
	}
	return m
}

func datasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
