package main

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paceline-proxy/paceline/limiter/memory"
	"github.com/paceline-proxy/paceline/limiter/slothttp"
)

func TestDoctorOfHomesThatShare(t *testing.T) {
	if !knowsPeers {
		t.Skip("other proxies are not seen here")
	}
	db := filepath.Join(t.TempDir(), "limits.db")
	share := "limiter: {url: 'sqlite:" + db + "'}\n"
	a, b, c := newBox(t), newBox(t), newBox(t)
	a.configure(nil, share)
	b.configure(nil, share)
	c.configure(nil, "limiter: {url: 'sqlite:"+db+"2'}\n")
	a.serve("--port", "0")
	two, three := b.serve("--port", "0"), c.serve("--port", "0")
	out, _, code := a.run("doctor")
	if code != 0 || !strings.Contains(out, "the proxy reaches sqlite:"+db+"\n") {
		t.Errorf("exit code %d, and the proxy's limiter is not said to answer:\n%s", code, out)
	}
	if strings.Contains(out, fmt.Sprintf("process %d ", two.PID)) {
		t.Errorf("a proxy that shares the limiter is warned of:\n%s", out)
	}
	if !strings.Contains(out, fmt.Sprintf("process %d of the home %s", three.PID, c.Dir)) {
		t.Errorf("a proxy with another limiter is not warned of:\n%s", out)
	}
}

func TestDoctorOfALimiterThatIsAway(t *testing.T) {
	at := httptest.NewServer(&slothttp.Handler{Limiter: memory.New(), Secret: "right"})
	defer at.Close()
	b := newBox(t)
	const conf = "limiter: {url: '%s', secret: %s}\n"
	b.configure(nil, fmt.Sprintf(conf, at.URL, "wrong"))
	b.serve("--port", "0")
	out, _, code := b.run("doctor")
	if code != 1 || strings.Count(out, "limiter.secret") != 2 {
		t.Errorf("with a wrong secret: exit code %d\n%s", code, out)
	}
	// What the proxy began with holds until it is restarted.
	b.configure(nil, fmt.Sprintf(conf, at.URL, "right"))
	out, _, code = b.run("doctor")
	if code != 1 || !strings.Contains(out, at.URL+" can be used\n") || !strings.Contains(out, "fault    limiter       the proxy does not reach "+at.URL+": The shared limiter is out of reach since ") {
		t.Errorf("with the right one, before a restart: exit code %d\n%s", code, out)
	}
}
