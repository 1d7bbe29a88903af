package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
)

// logTable returns what writes a record as a line of a table, the first one
// below its head. On a terminal a line is no longer than that is wide.
func logTable(w io.Writer) func(paceline.Record) error {
	at, _ := screen(w)
	colors := colored(w)
	line := func(cells ...any) string {
		text := strings.TrimRight(fmt.Sprintf("%-14s  %-32s  %6s  %8s  %8s  %14s  %s", cells...), " ")
		if at.columns > 0 && utf8.RuneCountInString(text) > at.columns {
			text = string([]rune(text)[:at.columns-1]) + "…"
		}
		return text
	}
	head := line("time", "provider/model", "status", "queued s", "took s", "tokens in/out", "notes") + "\n"
	return func(r paceline.Record) error {
		when, took := r.Sent, "-"
		switch {
		case r.Sent.IsZero() && r.Done.IsZero():
			when = r.Arrived
		case r.Sent.IsZero():
			when = r.Done
		case r.Done.After(r.Sent):
			took = seconds(r.Done.Sub(r.Sent))
		}
		tokens := "-"
		if r.InTokens > 0 || r.OutTokens > 0 {
			tokens = fmt.Sprintf("%d/%d", r.InTokens, r.OutTokens)
		}
		status := "-"
		if r.Status > 0 {
			status = strconv.Itoa(r.Status)
		}
		text := line(when.Local().Format("01-02 15:04:05"), printable(r.Provider+"/"+r.Model), status,
			seconds(r.Queued), took, tokens, printable(strings.Join(notes(&r), ", ")))
		if colors && !r.OK() && !r.Cache {
			text = "\x1b[31m" + text + "\x1b[0m"
		}
		_, err := io.WriteString(w, head+text+"\n")
		head = ""
		return err
	}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) }

// notes is what is special about a record.
func notes(r *paceline.Record) []string {
	var notes []string
	add := func(is bool, text string) {
		if is {
			notes = append(notes, text)
		}
	}
	add(r.Class != "" && r.Class != dialect.OK, strings.ReplaceAll(string(r.Class), "_", " "))
	add(r.Told, fmt.Sprintf("told to wait %v", r.Wait))
	add(r.Evidence != nil && r.Evidence.UnderLimit, "under every configured limit")
	add(r.NotSent && !r.Cache, "not sent")
	add(r.Cache, "from the cache")
	add(r.Retry, fmt.Sprintf("attempt %d", r.Attempt))
	add(r.Timeout, "timed out")
	add(r.Aborted, "the client left")
	if o := r.Observed; o != nil && o.Wait > 0 {
		add(true, fmt.Sprintf("would have waited %v for %s", o.Wait.Round(time.Millisecond), cmp.Or(o.Why, "its turn")))
	}
	add(r.Client != "", "client "+r.Client)
	add(r.Error != "" && !r.Aborted && !r.Timeout, r.Error)
	return notes
}

// printable is a text that a client or provider made, without what a terminal
// would take for an order.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}
