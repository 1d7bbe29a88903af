package daemon

import (
	"time"

	"github.com/paceline-proxy/paceline"
)

// A Status is what GET /stats answers.
type Status struct {
	Version   string                  `json:"version"`
	StartedAt time.Time               `json:"started_at"`
	Mode      string                  `json:"mode"`
	Limiter   LimiterStatus           `json:"limiter"`
	Callers   []paceline.CallerStatus `json:"callers"`
}

// A LimiterStatus is where the counts are, and whether it answers.
type LimiterStatus struct {
	URL   string `json:"url"`
	State string `json:"state"`
}

func (d *daemon) status() any {
	return Status{
		Version: d.Version, StartedAt: d.started.UTC().Truncate(time.Millisecond),
		Mode:    string(d.mode("")),
		Limiter: LimiterStatus{"memory", "ok"},
		Callers: append([]paceline.CallerStatus{}, d.transport.Status()...),
	}
}
