package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/reach"
	"github.com/paceline-proxy/paceline/internal/slot"
	"github.com/paceline-proxy/paceline/internal/slot/address"
	"github.com/paceline-proxy/paceline/limiter"
	"github.com/paceline-proxy/paceline/limiter/memory"
)

// openLimiter opens the limiter: this process's own with its journal, or the
// one that hosts share. fresh is whether what was granted before has to be taken
// from the log.
func (d *daemon) openLimiter(ctx context.Context) (fresh bool) {
	if d.config.Limiter.URL != "memory" {
		d.openShared(ctx)
		return false
	}
	l, err := memory.Journal{Path: d.Home.Journal(), HoldOf: d.holdOf, Seeded: true, Logger: d.Logger}.Open()
	if err != nil {
		d.Logger.Error("the journal cannot be opened: limits hold, but a restart will not know what was sent",
			"file", d.Home.Journal(), "error", err)
		l, fresh = memory.New(), true
	} else if r := l.Recovered(); r.Damaged || r.Newer {
		d.Logger.Warn("the journal was damaged: windows are counted again from the log", "records", r.Records, "aside", r.Aside)
		fresh = true
	} else {
		fresh = r.Fresh
	}
	d.own = newHolder(l)
	d.limiter, d.heirs = d.own, &d.own.heirs
	return fresh
}

// openShared opens the limiter that hosts share. Where it cannot be reached, the
// proxy begins without it.
func (d *daemon) openShared(ctx context.Context) {
	c := d.config.Limiter
	d.shared = reach.New(ctx, reach.Options{
		Open:      func(ctx context.Context) (limiter.Limiter, error) { return OpenLimiter(ctx, d.config, d.Home) },
		OnFailure: c.OnFailure,
		Share:     c.Share,
		Timeout:   c.Timeout,
		Host:      hostOf(d.Home),
		URL:       address.Redacted(c.URL),
		Logger:    d.Logger,
	})
	d.limiter, d.heirs = d.shared, &heirs{limiter: d.shared}
	if d.shared.Status().Away {
		return // which it has said
	}
	for _, w := range d.shared.Warnings() {
		d.Logger.Warn("the shared limiter: " + w)
	}
}

// OpenLimiter opens the limiter that a configuration names.
func OpenLimiter(ctx context.Context, c *config.Config, h home.Home) (limiter.Limiter, error) {
	return slot.Open(ctx, c.Limiter.URL, slot.Options{Home: h, Secret: c.Limiter.Secret, Logger: h.Logger})
}

// closeLimiter lets go of the limiter, once nothing is under way.
func (d *daemon) closeLimiter() {
	var err error
	if d.own != nil {
		err = d.own.Close()
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), linger)
		defer cancel()
		d.transport.Flush(ctx) // or places stay taken until they lapse
		err = d.shared.Close()
	}
	if err != nil {
		d.Logger.Warn("the limiter was not closed as it should be", "error", err)
	}
}

// hostOf names a home among those that share a limiter. It tells nobody where
// that is.
func hostOf(h home.Home) string {
	host, _ := os.Hostname()
	sum := sha256.Sum256([]byte(host + "\x00" + h.Dir))
	return hex.EncodeToString(sum[:8])
}

// A LimiterStatus is where the counts are, and whether it answers.
type LimiterStatus struct {
	URL   string `json:"url"`   // without secrets
	State string `json:"state"` // ok or away
	// OnFailure is what holds while it is away: local, open or closed.
	OnFailure string `json:"on_failure,omitempty"`
	// Hosts are those that have used it in the last ten minutes, where that is
	// known. Share is the part of each limit that is this one's while it is away.
	Hosts int     `json:"hosts,omitempty"`
	Share float64 `json:"share,omitempty"`
	// Warnings are what somebody should mend, in whole sentences.
	Warnings []string `json:"warnings,omitempty"`
}

func (d *daemon) limiterStatus() LimiterStatus {
	if d.shared == nil {
		return LimiterStatus{URL: "memory", State: "ok"}
	}
	c, now := d.begun.Limiter, d.shared.Status()
	s := LimiterStatus{
		URL: address.Redacted(c.URL), State: "ok", OnFailure: c.OnFailure, Hosts: now.Hosts, Warnings: d.shared.Warnings(),
	}
	if now.Away {
		s.State = "away"
	}
	if c.OnFailure == reach.Local {
		s.Share = now.Share
	}
	return s
}

// collectors are the metrics of a shared limiter.
func (d *daemon) collectors() []prometheus.Collector {
	if d.shared == nil {
		return nil
	}
	metric := func(name, help string, kind func(prometheus.GaugeOpts, func() float64) prometheus.Collector, value func(reach.Status) float64) prometheus.Collector {
		return kind(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(d.shared.Status()) })
	}
	gauge := func(o prometheus.GaugeOpts, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(o, f)
	}
	counter := func(o prometheus.GaugeOpts, f func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts(o), f)
	}
	return []prometheus.Collector{
		metric("paceline_limiter_up", "Whether the shared limiter answers: 1, or 0 while it is away.", gauge, func(s reach.Status) float64 {
			if s.Away {
				return 0
			}
			return 1
		}),
		metric("paceline_limiter_hosts", "Hosts that have used the shared limiter in the last ten minutes; 0 where that is not known.", gauge,
			func(s reach.Status) float64 { return float64(s.Hosts) }),
		metric("paceline_limiter_failures_total", "Calls that the shared limiter has not answered.", counter,
			func(s reach.Status) float64 { return float64(s.Failures) }),
		metric("paceline_limiter_alone_total", "Requests let through while the shared limiter was away.", counter,
			func(s reach.Status) float64 { return float64(s.Alone) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "paceline_limiter_warnings", Help: "Warnings of the shared limiter, which paceline status shows."},
			func() float64 { return float64(len(d.shared.Warnings())) }),
	}
}
