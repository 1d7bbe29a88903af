package history

import (
	"fmt"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline"
)

// A column of the log, and what a record has to do with it. What is zero or
// not known is NULL. Instants and spans are in microseconds.
type column struct {
	name, kind string
	counted    bool // statistics need it
	// value is what to store of a record, nil for NULL.
	value func(*paceline.Record) any
	// set takes what was stored.
	set func(*paceline.Record, any)
}

// columns are those of a log. More may be added: a log that lacks them gets
// them.
var columns = []column{
	// The flags say what else there is, so they are read first.
	{"flags", "INTEGER", true, flagsOf, setFlags},
	text("id", false, func(r *paceline.Record) *string { return &r.ID }),
	integer("attempt", false, func(r *paceline.Record) *int { return &r.Attempt }),
	instant("t_arrived", func(r *paceline.Record) *time.Time { return &r.Arrived }),
	instant("t_sent", func(r *paceline.Record) *time.Time { return &r.Sent }),
	instant("t_done", func(r *paceline.Record) *time.Time { return &r.Done }),
	text("provider", true, func(r *paceline.Record) *string { return &r.Provider }),
	text("credential", true, func(r *paceline.Record) *string { return &r.Credential }),
	text("account", true, func(r *paceline.Record) *string { return &r.Account }),
	text("scope", true, func(r *paceline.Record) *string { return &r.Scope }),
	text("tier", true, func(r *paceline.Record) *string { return &r.Tier }),
	text("model", true, func(r *paceline.Record) *string { return &r.Model }),
	integer("status", true, func(r *paceline.Record) *int { return &r.Status }),
	text("class", true, func(r *paceline.Record) *string { return (*string)(&r.Class) }),
	span("wait_us", false, func(r *paceline.Record) *time.Duration { return &r.Wait }),
	span("queued_us", true, func(r *paceline.Record) *time.Duration { return &r.Queued }),
	integer("sent_60s", false, func(r *paceline.Record) *int { return &evidence(r).Sent60s }),
	integer("sent_1s", false, func(r *paceline.Record) *int { return &evidence(r).Sent1s }),
	{"rate_factor", "REAL", false,
		func(r *paceline.Record) any { return known(evidence(r).Factor) },
		func(r *paceline.Record, v any) { evidence(r).Factor, _ = v.(float64) }},
	span("observed_us", false, func(r *paceline.Record) *time.Duration { return &observed(r).Wait }),
	text("observed_why", false, func(r *paceline.Record) *string { return &observed(r).Why }),
	integer("saved", true, func(r *paceline.Record) *int { return &r.Saved }),
	text("client", false, func(r *paceline.Record) *string { return &r.Client }),
	text("purpose", false, func(r *paceline.Record) *string { return &r.Purpose }),
	text("run", false, func(r *paceline.Record) *string { return &r.Run }),
	text("priority", false, func(r *paceline.Record) *string { return &r.Priority }),
	integer("in_tokens", true, func(r *paceline.Record) *int { return &r.InTokens }),
	integer("out_tokens", true, func(r *paceline.Record) *int { return &r.OutTokens }),
	text("error", true, func(r *paceline.Record) *string { return &r.Error }),
}

// flags are the bits of a row's flags, from the lowest. The first two say that
// there is more. More may be added at the end.
var flags = []func(*paceline.Record) *bool{
	func(r *paceline.Record) *bool { has := r.Evidence != nil; return &has },
	func(r *paceline.Record) *bool { has := r.Observed != nil; return &has },
	func(r *paceline.Record) *bool { return &evidence(r).UnderLimit },
	func(r *paceline.Record) *bool { return &evidence(r).Adapted },
	func(r *paceline.Record) *bool { return &r.Told },
	func(r *paceline.Record) *bool { return &r.NotSent },
	func(r *paceline.Record) *bool { return &r.Timeout },
	func(r *paceline.Record) *bool { return &r.Aborted },
	func(r *paceline.Record) *bool { return &r.Retry },
	func(r *paceline.Record) *bool { return &r.Cache },
}

func flagsOf(r *paceline.Record) any {
	bits := int64(0)
	for i, is := range flags {
		if *is(r) {
			bits |= 1 << i
		}
	}
	return known(bits)
}

func setFlags(r *paceline.Record, v any) {
	bits, _ := v.(int64)
	if bits&1 != 0 {
		r.Evidence = new(paceline.Evidence)
	}
	if bits&2 != 0 {
		r.Observed = new(paceline.Observed)
	}
	for i, is := range flags {
		*is(r) = bits&(1<<i) != 0
	}
}

// at is the instant a row belongs to, as the statistics have it: when it was
// sent, in older logs when it ended, and where nothing was sent when that was
// known.
const at = "coalesce(t_sent, t_done, t_arrived, 0)"

// evidence is a record's, or one that goes nowhere.
func evidence(r *paceline.Record) *paceline.Evidence {
	if r.Evidence == nil {
		return new(paceline.Evidence)
	}
	return r.Evidence
}

// observed is a record's, or one that goes nowhere.
func observed(r *paceline.Record) *paceline.Observed {
	if r.Observed == nil {
		return new(paceline.Observed)
	}
	return r.Observed
}

func known[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// mostText is how much of a text is kept: some are what a client says.
const mostText = 1 << 10

func text(name string, counted bool, of func(*paceline.Record) *string) column {
	return column{name, "TEXT", counted,
		func(r *paceline.Record) any {
			s := *of(r)
			if len(s) > mostText {
				s = s[:mostText]
			}
			return known(strings.ToValidUTF8(s, ""))
		},
		func(r *paceline.Record, v any) { *of(r), _ = v.(string) },
	}
}

func integer(name string, counted bool, of func(*paceline.Record) *int) column {
	return column{name, "INTEGER", counted,
		func(r *paceline.Record) any { return known(int64(*of(r))) },
		func(r *paceline.Record, v any) {
			n, _ := v.(int64)
			*of(r) = int(n)
		},
	}
}

func span(name string, counted bool, of func(*paceline.Record) *time.Duration) column {
	return column{name, "INTEGER", counted,
		func(r *paceline.Record) any { return known(of(r).Microseconds()) },
		func(r *paceline.Record, v any) {
			us, _ := v.(int64)
			*of(r) = time.Duration(us) * time.Microsecond
		},
	}
}

func instant(name string, of func(*paceline.Record) *time.Time) column {
	return column{name, "INTEGER", true,
		func(r *paceline.Record) any {
			if of(r).IsZero() {
				return nil
			}
			return of(r).UnixMicro()
		},
		func(r *paceline.Record, v any) {
			us, _ := v.(int64)
			*of(r) = time.UnixMicro(us).UTC()
		},
	}
}

// insertion is the statement that stores a row.
func insertion(rows int) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	row := "(?" + strings.Repeat(", ?", len(names)-1) + ")"
	return fmt.Sprintf("INSERT INTO attempts (%s) VALUES %s%s", strings.Join(names, ", "), row, strings.Repeat(", "+row, rows-1))
}
