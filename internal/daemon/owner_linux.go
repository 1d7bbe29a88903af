package daemon

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// portOwner says which process listens at a TCP port, as far as this user may
// know. Empty: it is not known.
func portOwner(port int) string {
	sockets := make(map[string]bool)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		addListening(table, port, sockets)
	}
	if len(sockets) == 0 {
		return ""
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && sockets[to] {
			dir := filepath.Dir(filepath.Dir(fd))
			comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
			return fmt.Sprintf("pid %s (%s)", filepath.Base(dir), strings.TrimSpace(string(comm)))
		}
	}
	return ""
}

// addListening adds the sockets that listen at a port, named as /proc/PID/fd
// names them.
func addListening(table string, port int, sockets map[string]bool) {
	f, err := os.Open(table)
	if err != nil {
		return
	}
	defer f.Close()
	const listening = "0A"
	at := fmt.Sprintf(":%04X", port)
	for s := bufio.NewScanner(f); s.Scan(); {
		col := strings.Fields(s.Text())
		if len(col) > 9 && strings.HasSuffix(col[1], at) && col[3] == listening {
			sockets["socket:["+col[9]+"]"] = true
		}
	}
}
