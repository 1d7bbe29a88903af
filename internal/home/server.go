package home

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2/maybe"
)

// A Server says where the proxy of a home listens, and which process it is.
type Server struct {
	PID int `json:"pid"`
	// Host is an address, or unix:PATH with port 0.
	Host      string    `json:"host"`
	Port      int       `json:"port"`
	StartedAt time.Time `json:"startedAt"`
	Hostname  string    `json:"hostname"`
	BootID    string    `json:"bootId"`
	Version   string    `json:"version"`
	// What is needed to start it again: all addresses, the configuration file,
	// and whether a command started it for itself.
	Listen      []string `json:"listen,omitempty"`
	Config      string   `json:"config,omitempty"`
	Autostarted bool     `json:"autostarted,omitempty"`
}

// URL is what a client on this machine uses, without a path.
func (s Server) URL() string {
	if strings.HasPrefix(s.Host, unixPrefix) {
		return "http://localhost"
	}
	return "http://" + net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
}

// String is how a person is told which proxy it is.
func (s Server) String() string {
	if strings.HasPrefix(s.Host, unixPrefix) {
		return fmt.Sprintf("pid %d, %s", s.PID, s.Host)
	}
	return fmt.Sprintf("pid %d, port %d", s.PID, s.Port)
}

const unixPrefix = "unix:"

// Recorded returns the server.json of the home. Where there is none the error
// is fs.ErrNotExist.
func (h Home) Recorded() (Server, error) {
	b, err := os.ReadFile(h.ServerFile())
	if err != nil {
		return Server{}, err
	}
	var s Server
	if err := json.Unmarshal(b, &s); err != nil {
		return Server{}, fmt.Errorf("%s is damaged: %w", h.ServerFile(), err)
	}
	_, notIP := netip.ParseAddr(s.Host)
	socket := strings.HasPrefix(s.Host, unixPrefix)
	if s.PID <= 0 || s.Port < 0 || s.Port > 65535 || notIP != nil && !socket {
		return Server{}, fmt.Errorf("%s is damaged: it names no process, or no address", h.ServerFile())
	}
	return s, nil
}

// Record writes server.json for this process, which must hold the [Lock].
// It fills in the process and the machine, and returns what it wrote.
func (h Home) Record(s Server) (Server, error) {
	s.PID = os.Getpid()
	s.StartedAt = s.StartedAt.UTC().Truncate(time.Millisecond)
	s.Hostname, _ = os.Hostname()
	s.BootID = bootID()
	b, err := json.Marshal(s)
	if err != nil {
		return s, err
	}
	if fi, err := os.Stat(h.ServerFile()); err == nil && fi.IsDir() {
		return s, fmt.Errorf("%s is a directory, where a file belongs: move it away", h.ServerFile())
	}
	if err := maybe.WriteFile(h.ServerFile(), append(b, '\n'), 0o600); err != nil {
		return s, h.unusable(err)
	}
	return s, nil
}

// Forget removes server.json if it names this process.
func (h Home) Forget() error {
	s, err := h.Recorded()
	if err != nil || s.PID != os.Getpid() || s.elsewhere() {
		return nil // it is not ours
	}
	if err := os.Remove(h.ServerFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// elsewhere reports whether the proxy runs on another machine, which nobody
// here can find dead. A machine of the same name has been started anew, and a
// container with the same kernel is this machine.
func (s Server) elsewhere() bool {
	host, _ := os.Hostname()
	return s.Hostname != "" && s.BootID != "" && s.Hostname != host && s.BootID != bootID()
}

// Dead reports whether the process is gone that the server was. One that has
// ended as it should is not recorded any more.
func (s Server) Dead() bool { return !s.elsewhere() && !Exists(s.PID) }

// healthWithin is how long a proxy has for saying that it is alive.
const healthWithin = 1500 * time.Millisecond

// Live returns the proxy of the home if there is one: its process exists and
// answers /health with a 2xx within 1.5 s. One of another machine, on a home
// that is shared, is taken to live.
func (h Home) Live(ctx context.Context) (Server, bool) {
	s, err := h.Recorded()
	if err != nil {
		return Server{}, false
	}
	return s, s.elsewhere() || Exists(s.PID) && s.healthy(ctx)
}

func (s Server) healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, healthWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/health", nil)
	if err != nil {
		return false
	}
	resp, err := httpClient(s.Host, healthWithin).Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode/100 == 2
}
