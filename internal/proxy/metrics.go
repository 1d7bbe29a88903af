package proxy

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/paceline-proxy/paceline"
)

// metrics are what /metrics shows. They name providers, credentials by their
// names, and models where they have lines of their own; never a client.
type metrics struct {
	handler  http.Handler
	attempts *prometheus.CounterVec
	queued   *prometheus.HistogramVec

	mu      sync.Mutex
	refused map[string]int // 429s by provider
}

func newMetrics(t *paceline.Transport, more []prometheus.Collector) *metrics {
	m := &metrics{
		refused: make(map[string]int),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "paceline_attempts_total",
			Help: "Attempts by provider and class of answer; class not_sent is requests refused before sending, aborted those whose client left.",
		}, []string{"provider", "class"}),
		queued: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "paceline_queue_seconds",
			Help:    "How long attempts stood in paceline's line before they were sent.",
			Buckets: []float64{0.001, 0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600},
		}, []string{"provider"}),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.attempts, m.queued, lines{t})
	registry.MustRegister(more...)
	m.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m
}

// count adds a record.
func (m *metrics) count(r *paceline.Record) {
	class := string(r.Class)
	switch {
	case r.Aborted:
		class = "aborted"
	case r.NotSent:
		class = "not_sent"
	}
	m.attempts.WithLabelValues(r.Provider, class).Inc()
	if r.Status == http.StatusTooManyRequests && !r.NotSent {
		m.mu.Lock()
		m.refused[r.Provider]++
		m.mu.Unlock()
	}
	if !r.NotSent {
		m.queued.WithLabelValues(r.Provider).Observe(r.Queued.Seconds())
	}
}

// refusals are the 429s so far, by provider.
func (m *metrics) refusals() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.refused)
}

// lines collects what every caller key is doing, when somebody asks.
type lines struct{ transport *paceline.Transport }

var (
	lineLabels  = []string{"provider", "credential", "scope"}
	waitingDesc = prometheus.NewDesc("paceline_waiting", "Requests that wait for their turn.", append(lineLabels[:3:3], "priority"), nil)
	activeDesc  = prometheus.NewDesc("paceline_active", "Requests at the provider.", lineLabels, nil)
	heldDesc    = prometheus.NewDesc("paceline_held", "Places taken by requests whose client left.", lineLabels, nil)
	factorDesc  = prometheus.NewDesc("paceline_rate_factor", "The adaptive factor of the declared rates.", lineLabels, nil)
	pausedDesc  = prometheus.NewDesc("paceline_paused_seconds", "How long the line is paused yet; 0 where it is not.", lineLabels, nil)
)

// Describe names the lines' metrics.
func (l lines) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waitingDesc, activeDesc, heldDesc, factorDesc, pausedDesc} {
		ch <- d
	}
}

// Collect asks the Transport.
func (l lines) Collect(ch chan<- prometheus.Metric) {
	type key struct{ provider, credential, scope string }
	seen := make(map[key]bool)
	for _, c := range l.transport.Status() {
		if k := (key{c.Provider, c.Credential, c.Scope}); seen[k] {
			continue // one series twice would fail the whole page
		} else {
			seen[k] = true
		}
		gauge := func(d *prometheus.Desc, v float64, more ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{c.Provider, c.Credential, c.Scope}, more...)...)
		}
		gauge(waitingDesc, float64(c.Waiting.Interactive), "interactive")
		gauge(waitingDesc, float64(c.Waiting.Normal), "normal")
		gauge(waitingDesc, float64(c.Waiting.Background), "background")
		gauge(activeDesc, float64(c.Active))
		gauge(heldDesc, float64(c.Held))
		gauge(factorDesc, c.Effective.Factor)
		gauge(pausedDesc, max(0, time.Until(c.PausedUntil).Seconds()))
	}
}
