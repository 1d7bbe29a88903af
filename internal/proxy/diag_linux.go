package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The layout of the kernel's struct inet_diag_req_v2 and inet_diag_msg, each
// after a netlink header.
const (
	diagRequestLen = unix.NLMSG_HDRLEN + 56
	diagStates     = 4  // of the request: a set
	diagID         = 8  // of the request
	diagAnswerID   = 4  // of the answer
	diagAnswerUID  = 64 // of the answer
	diagInode      = 68 // of the answer
	diagAnswerLen  = 72
)

// States of a TCP socket that its owner may still read or write.
var ownedStates = map[byte]bool{1: true, 4: true, 5: true, 8: true} // ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT

// errNoSocket: the kernel knows of no such socket.
var errNoSocket = errors.New("there is no such socket")

// askKernel asks for the owner of one TCP socket by its two ends, whatever
// other sockets there are. It fails with errNoSocket, or where the kernel
// cannot be asked.
func askKernel(local, remote netip.AddrPort) (uid int, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	patience := unix.NsecToTimeval(time.Second.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience); err != nil {
		return 0, err
	}
	if err := unix.Sendto(fd, diagRequest(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, err
	}
	return readDiag(answer[:n], local, remote)
}

// diagRequest asks for the socket between two addresses of one family.
func diagRequest(local, remote netip.AddrPort) []byte {
	b := make([]byte, diagRequestLen)
	native := binary.NativeEndian
	native.PutUint32(b, diagRequestLen)
	native.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST)
	req := b[unix.NLMSG_HDRLEN:]
	req[0], req[1] = unix.AF_INET, unix.IPPROTO_TCP
	if local.Addr().Is6() {
		req[0] = unix.AF_INET6
	}
	native.PutUint32(req[diagStates:], 1<<32-1)
	putID(req[diagID:], local, remote)
	for i := range 8 { // of any cookie
		req[diagID+40+i] = 0xff
	}
	return b
}

// putID writes the two ends of a socket as struct inet_diag_sockid has them.
func putID(b []byte, local, remote netip.AddrPort) {
	binary.BigEndian.PutUint16(b, local.Port())
	binary.BigEndian.PutUint16(b[2:], remote.Port())
	copy(b[4:20], local.Addr().AsSlice())
	copy(b[20:36], remote.Addr().AsSlice())
}

// readDiag reads the owner from the kernel's answer, if that is about the
// socket asked for and not about one that listens there.
func readDiag(b []byte, local, remote netip.AddrPort) (uid int, err error) {
	native := binary.NativeEndian
	if len(b) < unix.NLMSG_HDRLEN+4 {
		return 0, fmt.Errorf("%d bytes are no answer", len(b))
	}
	msg := b[unix.NLMSG_HDRLEN:]
	switch kind := native.Uint16(b[4:]); {
	case kind == unix.NLMSG_ERROR:
		if e := syscall.Errno(-int32(native.Uint32(msg))); e != unix.ENOENT {
			return 0, e
		}
		return 0, errNoSocket
	case kind != unix.SOCK_DIAG_BY_FAMILY || len(msg) < diagAnswerLen:
		return 0, fmt.Errorf("an answer of type %d and %d bytes", kind, len(b))
	}
	var id [36]byte
	putID(id[:], local, remote)
	// An IPv4 connection may be one of an IPv6 socket, and is asked for as IPv4:
	// the ports say enough. A socket that its process has closed belongs to
	// nobody, and is shown as root's.
	if !ownedStates[msg[1]] || [4]byte(msg[diagAnswerID:]) != [4]byte(id[:]) || native.Uint32(msg[diagInode:]) == 0 {
		return 0, errNoSocket
	}
	return int(native.Uint32(msg[diagAnswerUID:])), nil
}
