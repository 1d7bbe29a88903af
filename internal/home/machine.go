package home

import (
	"os"
	"strings"
	"sync"
)

// bootID names this start of this machine, the same in all its containers.
// Empty where the system does not tell.
var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})
