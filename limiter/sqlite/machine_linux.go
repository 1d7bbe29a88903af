package sqlite

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// thisMachine is the one this process runs on. Processes of another time
// namespace read another boot clock, so theirs is another run.
func thisMachine() machine {
	m := machine{boot: boot, wall: func() int64 { return time.Now().UnixNano() }}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || boot() == 0 {
		return m
	}
	space, _ := os.Readlink("/proc/self/ns/time") // none before Linux 5.6
	m.run = strings.TrimSpace(string(id)) + " " + space
	return m
}

func boot() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return t.Nano()
}
