//go:build !linux

package sqlite

import "time"

// thisMachine has no clock that all processes could read but the wall's.
func thisMachine() machine {
	return machine{boot: func() int64 { return 0 }, wall: func() int64 { return time.Now().UnixNano() }}
}
