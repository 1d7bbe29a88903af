package daemon

import (
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/config"
)

// A Status is what GET /stats answers.
type Status struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Mode      string    `json:"mode"`
	// Modes are those of providers that have another.
	Modes map[string]string `json:"modes,omitempty"`
	// NextStart names the keys of the configuration that have changed since the
	// proxy was started and take effect when it is started anew.
	NextStart []string                `json:"next_start,omitempty"`
	Limiter   LimiterStatus           `json:"limiter"`
	Callers   []paceline.CallerStatus `json:"callers"`
	// Paused are the providers that somebody has paused, be there lines or not.
	Paused []paceline.PausedStatus `json:"paused,omitempty"`
}

func (d *daemon) status() any {
	s := Status{
		Version: d.Version, StartedAt: d.started.UTC().Truncate(time.Millisecond),
		Limiter: d.limiterStatus(),
		Callers: append([]paceline.CallerStatus{}, d.transport.Status()...),
		Paused:  d.transport.Paused(),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.modeOf(d.config, paceline.Provider{})
	s.Mode, s.NextStart = string(all), startOnly(d.begun, d.config)
	for _, p := range d.providers(d.config) {
		if mode := config.Mode(p.Mode); mode != all {
			if s.Modes == nil {
				s.Modes = make(map[string]string)
			}
			s.Modes[p.Name] = string(mode)
		}
	}
	return s
}
