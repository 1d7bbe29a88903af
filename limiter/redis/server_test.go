package redis_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var shared = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		return "", err
	}
	sock := filepath.Join(dir, "s")
	cmd := exec.Command("redis-server", "--port", "0", "--unixsocket", sock, "--save", "", "--dir", dir)
	if err := cmd.Start(); err != nil {
		return "", err
	}
	for range 200 {
		if c, err := net.Dial("unix", sock); err == nil {
			c.Close()
			return "redis+unix://" + sock, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "", fmt.Errorf("no server")
})

func sharedRedis(t testing.TB) string {
	u, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return u
}
