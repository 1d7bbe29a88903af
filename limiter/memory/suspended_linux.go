package memory

import (
	"syscall"
	"time"
	"unsafe"
)

// The clocks of clock_gettime(2). The boot clock goes on while the machine
// sleeps; Go's monotonic clock is the other and does not.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspended is how long this machine has slept since it started, 0 where the
// kernel does not say.
//
// The two clocks cannot be read at one instant, and a pause between the two
// readings makes the sleep look shorter. So the longest of a few tries is the
// best one, and a try without a pause ends the search.
func suspended() int64 {
	var longest int64
	for range 8 {
		before, ok1 := gettime(clockMonotonic)
		boot, ok2 := gettime(clockBoottime)
		later, ok3 := gettime(clockMonotonic)
		if !ok1 || !ok2 || !ok3 {
			return 0
		}
		longest = max(longest, boot-later)
		if later-before < int64(100*time.Microsecond) {
			break
		}
	}
	return longest
}

func gettime(id uintptr) (int64, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano(), errno == 0
}
