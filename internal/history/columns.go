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
	// value is what to store of a record, nil for NULL.
	value func(*paceline.Record) any
	// set takes what was stored.
	set func(*paceline.Record, any)
}

// columns are named as in the JSON of a record. More may be added: a log that
// lacks them gets them.
var columns = []column{
	text("id", func(r *paceline.Record) *string { return &r.ID }),
	integer("attempt", func(r *paceline.Record) *int { return &r.Attempt }),
	instant("t_arrived", func(r *paceline.Record) *time.Time { return &r.Arrived }),
	instant("t_sent", func(r *paceline.Record) *time.Time { return &r.Sent }),
	instant("t_done", func(r *paceline.Record) *time.Time { return &r.Done }),
	text("provider", func(r *paceline.Record) *string { return &r.Provider }),
	text("credential", func(r *paceline.Record) *string { return &r.Credential }),
	text("account", func(r *paceline.Record) *string { return &r.Account }),
	text("scope", func(r *paceline.Record) *string { return &r.Scope }),
	text("tier", func(r *paceline.Record) *string { return &r.Tier }),
	text("model", func(r *paceline.Record) *string { return &r.Model }),
	integer("status", func(r *paceline.Record) *int { return &r.Status }),
	text("class", func(r *paceline.Record) *string { return (*string)(&r.Class) }),
	{"wait_us", "INTEGER",
		func(r *paceline.Record) any {
			if !r.Told {
				return nil
			}
			return r.Wait.Microseconds()
		},
		func(r *paceline.Record, v any) {
			us, _ := v.(int64)
			r.Told, r.Wait = true, time.Duration(us)*time.Microsecond
		}},
	{"queued_us", "INTEGER",
		func(r *paceline.Record) any { return known(r.Queued.Microseconds()) },
		func(r *paceline.Record, v any) {
			us, _ := v.(int64)
			r.Queued = time.Duration(us) * time.Microsecond
		}},
	// It says that there is evidence, so it is before the rest of it.
	{"under_limit", "INTEGER",
		func(r *paceline.Record) any {
			if r.Evidence == nil {
				return nil
			}
			return r.Evidence.UnderLimit
		},
		func(r *paceline.Record, v any) { r.Evidence = &paceline.Evidence{UnderLimit: v == int64(1)} }},
	integer("sent_60s", func(r *paceline.Record) *int { return &evidence(r).Sent60s }),
	integer("sent_1s", func(r *paceline.Record) *int { return &evidence(r).Sent1s }),
	{"rate_factor", "REAL",
		func(r *paceline.Record) any { return known(evidence(r).Factor) },
		func(r *paceline.Record, v any) { evidence(r).Factor, _ = v.(float64) }},
	flag("rate_adapted", func(r *paceline.Record) *bool { return &evidence(r).Adapted }),
	flag("not_sent", func(r *paceline.Record) *bool { return &r.NotSent }),
	flag("timeout", func(r *paceline.Record) *bool { return &r.Timeout }),
	flag("aborted", func(r *paceline.Record) *bool { return &r.Aborted }),
	flag("retry", func(r *paceline.Record) *bool { return &r.Retry }),
	flag("cache", func(r *paceline.Record) *bool { return &r.Cache }),
	integer("saved", func(r *paceline.Record) *int { return &r.Saved }),
	text("client", func(r *paceline.Record) *string { return &r.Client }),
	text("purpose", func(r *paceline.Record) *string { return &r.Purpose }),
	text("run", func(r *paceline.Record) *string { return &r.Run }),
	text("priority", func(r *paceline.Record) *string { return &r.Priority }),
	integer("in_tokens", func(r *paceline.Record) *int { return &r.InTokens }),
	integer("out_tokens", func(r *paceline.Record) *int { return &r.OutTokens }),
	text("error", func(r *paceline.Record) *string { return &r.Error }),
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

func known[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// mostText is how much of a text is kept: some are what a client says.
const mostText = 1 << 10

func text(name string, of func(*paceline.Record) *string) column {
	return column{name, "TEXT",
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

func integer(name string, of func(*paceline.Record) *int) column {
	return column{name, "INTEGER",
		func(r *paceline.Record) any { return known(int64(*of(r))) },
		func(r *paceline.Record, v any) {
			n, _ := v.(int64)
			*of(r) = int(n)
		},
	}
}

func flag(name string, of func(*paceline.Record) *bool) column {
	return column{name, "INTEGER",
		func(r *paceline.Record) any { return known(*of(r)) },
		func(r *paceline.Record, v any) { *of(r) = v == int64(1) },
	}
}

func instant(name string, of func(*paceline.Record) *time.Time) column {
	return column{name, "INTEGER",
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

// A scanned is where a column's value goes while a row is read.
type scanned struct {
	column *column
	record *paceline.Record
}

// Scan implements sql.Scanner.
func (s scanned) Scan(v any) error {
	if v != nil {
		s.column.set(s.record, v)
	}
	return nil
}

// selected are the columns to select, of which a log that has not been
// written since they were added may lack some.
func selected(has map[string]bool) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		if names[i] = c.name; !has[c.name] {
			names[i] = "NULL"
		}
	}
	return strings.Join(names, ", ")
}

// insertion is the statement that stores a row.
func insertion() string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return fmt.Sprintf("INSERT INTO attempts (%s) VALUES (?%s)", strings.Join(names, ", "), strings.Repeat(", ?", len(names)-1))
}
