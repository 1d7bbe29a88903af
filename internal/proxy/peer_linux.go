package proxy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ofThisUser reports whether the other end of a connection over loopback or a
// Unix socket belongs to the user of this process, as the kernel says.
func ofThisUser(c net.Conn) bool {
	switch c := c.(type) {
	case *net.UnixConn:
		raw, err := c.SyscallConn()
		if err != nil {
			return false
		}
		uid := uint32(1<<32 - 1)
		err = raw.Control(func(fd uintptr) {
			if cred, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
				uid = cred.Uid
			}
		})
		return err == nil && int(uid) == os.Getuid()
	case *net.TCPConn:
		// The peer's socket is the one whose local address is our remote one.
		uid, ok := socketUID(addrPort(c.RemoteAddr()), addrPort(c.LocalAddr()))
		return ok && uid == os.Getuid()
	}
	return false
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// socketUID finds the owner of a connected socket of this machine.
func socketUID(local, remote netip.AddrPort) (uid int, ok bool) {
	if !local.Addr().IsLoopback() || !remote.Addr().IsLoopback() {
		return 0, false
	}
	switch uid, err := askKernel(local, remote); err {
	case nil:
		return uid, true
	case errNoSocket:
		return 0, false
	}
	// Some sandboxes let nobody ask. What they show takes longer to read the
	// more sockets there are.
	tables := []string{"/proc/net/tcp", "/proc/net/tcp6"}
	// An IPv4 connection may be one of an IPv6 socket.
	if local.Addr().Is6() {
		tables = tables[1:]
	}
	for _, table := range tables {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		uid, ok = findSocket(bufio.NewScanner(f), local, remote)
		f.Close()
		if ok {
			return uid, true
		}
	}
	return 0, false
}

// findSocket looks for a socket in a table of /proc/net.
func findSocket(lines *bufio.Scanner, local, remote netip.AddrPort) (uid int, ok bool) {
	const established = "01"
	for lines.Scan() {
		col := strings.Fields(lines.Text())
		if len(col) < 10 || col[3] != established || col[9] == "0" || !strings.HasSuffix(col[1], fmt.Sprintf(":%04X", local.Port())) {
			continue
		}
		if at, err := procAddr(col[1]); err != nil || at != local {
			continue
		}
		if to, err := procAddr(col[2]); err != nil || to != remote {
			continue
		}
		uid, err := strconv.Atoi(col[7])
		return uid, err == nil
	}
	return 0, false
}

// procAddr reads ADDRESS:PORT as /proc/net writes it: 32-bit words in the
// machine's order.
func procAddr(s string) (netip.AddrPort, error) {
	words, port, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil || len(words) != 8 && len(words) != 32 {
		return netip.AddrPort{}, fmt.Errorf("no address: %q", s)
	}
	b := make([]byte, 0, 16)
	for i := 0; i < len(words); i += 8 {
		w, err := strconv.ParseUint(words[i:i+8], 16, 32)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("no address: %q", s)
		}
		b = binary.NativeEndian.AppendUint32(b, uint32(w))
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), nil
}
