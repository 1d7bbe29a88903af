package proxy

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
)

func TestFindSocket(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2256 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 0100007F:C001 0100007F:2256 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0
   2: 0100007F:C002 0100007F:2256 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 30 10 -1
   3: 0000000000000000FFFF00000100007F:C003 0000000000000000FFFF00000100007F:2256 01 00000000:00000000 00:00000000 00000000  1002        0 3 1 0 20 4 30 10 -1
   4: broken
   5: 0100007F:C004 0100007F:2256 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1
`
	to := netip.MustParseAddrPort("127.0.0.1:8790")
	for from, want := range map[string]int{"127.0.0.1:49154": 1001, "127.0.0.1:49155": 1002, "127.0.0.1:49153": -1, "127.0.0.1:49156": -1, "127.0.0.1:1": -1} {
		uid, ok := findSocket(bufio.NewScanner(strings.NewReader(table)), netip.MustParseAddrPort(from), to)
		if ok != (want >= 0) || ok && uid != want {
			t.Errorf("%s: %d, %v, want %d", from, uid, ok, want)
		}
	}
	if uid, ok := socketUID(netip.MustParseAddrPort("203.0.113.1:1"), to); ok {
		t.Errorf("another machine's socket has the user %d (we are %d)", uid, os.Getuid())
	}
}

// The kernel names the owner of each end of a connection, also of one that is
// half closed, and of no other.
func TestAskKernel(t *testing.T) {
	for _, network := range []string{"tcp4", "tcp6", "tcp"} {
		host := "127.0.0.1:0"
		if network == "tcp6" {
			host = "[::1]:0"
		}
		l, err := net.Listen(network, host)
		if err != nil {
			t.Logf("%s: %v", network, err)
			continue
		}
		defer l.Close()
		client, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		peer, own := addrPort(server.RemoteAddr()), addrPort(server.LocalAddr())
		uid, err := askKernel(peer, own)
		if err != nil && err != errNoSocket {
			t.Skipf("the kernel cannot be asked here: %v", err)
		}
		if err != nil || uid != os.Getuid() {
			t.Errorf("%s: user %d, %v", network, uid, err)
		}
		if !ofThisUser(server) {
			t.Errorf("%s: not of this user", network)
		}
		if err := client.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if uid, err := askKernel(peer, own); err != nil || uid != os.Getuid() {
			t.Errorf("%s, half closed: user %d, %v", network, uid, err)
		}
		// Closed, it is nobody's, whatever still goes to and fro.
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		if uid, err := askKernel(peer, own); err != errNoSocket {
			t.Errorf("%s, closed: user %d, %v", network, uid, err)
		}
		nobody := netip.AddrPortFrom(peer.Addr(), 1)
		if uid, err := askKernel(nobody, own); err != errNoSocket {
			t.Errorf("%s: a socket that there is not has user %d, %v", network, uid, err)
		}
		if uid, err := askKernel(own, nobody); err != errNoSocket {
			t.Errorf("%s: a listener is taken for a peer of user %d, %v", network, uid, err)
		}
	}
}

func FuzzReadDiag(f *testing.F) {
	a, b := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")
	f.Add(diagRequest(a, b))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if uid, err := readDiag(raw, a, b); err != nil && uid != 0 {
			t.Fatalf("user %d beside %v", uid, err)
		}
	})
}

func FuzzProcAddr(f *testing.F) {
	f.Add("0100007F:2256")
	f.Add("0000000000000000FFFF00000100007F:0001")
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := procAddr(s); err == nil && !a.IsValid() {
			t.Fatalf("%q became %v", s, a)
		}
	})
}
