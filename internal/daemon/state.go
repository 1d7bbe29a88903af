package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/google/renameio/v2/maybe"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/internal/history"
)

// openHistory opens the log. Without one the proxy goes on.
func (d *daemon) openHistory() {
	var err error
	d.history, err = history.Open(d.Home.Log(), history.Options{
		KeepDays: d.config.Log.KeepDays, MaxMB: d.config.Log.MaxMB, Logger: d.Logger,
	})
	if err != nil {
		d.history = nil // takes rows and keeps none
		d.Logger.Error("the log of requests cannot be opened: requests go on without it", "file", d.Home.Log(), "error", err)
	}
}

// holdOf is how long the provider of a bucket may work on what a dead
// predecessor sent.
func (d *daemon) holdOf(bucket string) time.Duration {
	name, _, _ := strings.Cut(bucket, "/")
	if name, err := url.PathUnescape(name); err == nil {
		if p, ok, err := d.config.Provider(name); ok && err == nil {
			return p.AbortHold
		}
	}
	return d.abortHold()
}

// abortHold is how long a provider may work on what a dead predecessor sent.
func (d *daemon) abortHold() time.Duration {
	hold := 30 * time.Second
	for _, p := range d.config.Providers {
		hold = max(hold, p.AbortHold)
	}
	return hold
}

// seedSince is the longest window there is, with its slack.
const seedSince = 25 * time.Hour

// seed counts again what the log says was sent, where the limiter does not know
// it; else only what the evidence of the next refusals needs.
func (d *daemon) seed(fresh bool) {
	r, err := history.OpenReader(d.Home.Log())
	if err != nil {
		return // there was none, or openHistory has said so
	}
	defer r.Close()
	sow, since := d.transport.Seed, seedSince
	switch {
	case d.shared != nil: // it counts for the time without it
		since = longest(d.transport.Providers)
	case !fresh:
		sow, since = d.transport.Recall, longest(d.transport.Providers)
	}
	rows := 0
	err = sow(func(yield func(paceline.Record) bool) {
		for rec, err := range r.Records(context.Background(), history.Query{Since: time.Now().Add(-since)}) {
			if err != nil {
				d.Logger.Warn("the log could not be read whole: less is known than was sent", "error", err)
				return
			}
			rows++
			if !yield(rec) {
				return
			}
		}
	})
	if err != nil {
		d.Logger.Warn("what was sent before could not be counted again", "error", err)
	}
	if fresh && rows > 0 {
		d.Logger.Warn("the journal was missing or damaged: windows and pauses were rebuilt from the log", "rows", rows)
	}
}

// longest is the longest window that entries declare, a minute at least.
func longest(ps []paceline.Provider) time.Duration {
	most := time.Minute
	for _, p := range ps {
		if p, err := p.Complete(); err == nil {
			most = max(most, p.Longest())
		}
	}
	return most
}

// keepPlaces writes the places in line of those who were sent away.
func (d *daemon) keepPlaces() {
	places := d.transport.Places()
	if len(places) == 0 {
		return
	}
	b, err := json.Marshal(places)
	if err == nil {
		err = maybe.WriteFile(d.Home.Places(), b, 0o600)
	}
	if err != nil {
		d.Logger.Warn("places in line could not be kept: those who waited begin at the end", "error", err)
	}
}

// takePlaces reads them, once.
func (d *daemon) takePlaces() {
	b, err := os.ReadFile(d.Home.Places())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var places []paceline.Place
	if err == nil {
		err = json.Unmarshal(b, &places)
	}
	if err != nil {
		d.Logger.Warn("places in line were lost: those who waited begin at the end", "file", d.Home.Places(), "error", err)
	}
	d.transport.Restore(places)
	if err := os.Remove(d.Home.Places()); err != nil {
		d.Logger.Warn("the file of places cannot be removed", "error", err)
	}
}
