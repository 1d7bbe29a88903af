package proxy

import (
	"bufio"
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
`
	to := netip.MustParseAddrPort("127.0.0.1:8790")
	for from, want := range map[string]int{"127.0.0.1:49154": 1001, "127.0.0.1:49155": 1002, "127.0.0.1:49153": -1, "127.0.0.1:1": -1} {
		uid, ok := findSocket(bufio.NewScanner(strings.NewReader(table)), netip.MustParseAddrPort(from), to)
		if ok != (want >= 0) || ok && uid != want {
			t.Errorf("%s: %d, %v, want %d", from, uid, ok, want)
		}
	}
	if uid, ok := socketUID(netip.MustParseAddrPort("203.0.113.1:1"), to); ok {
		t.Errorf("another machine's socket has the user %d (we are %d)", uid, os.Getuid())
	}
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
