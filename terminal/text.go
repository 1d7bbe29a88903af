package terminal

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/paceline-proxy/paceline"
)

// timer is the line that is drawn while a request waits, beside so many more.
// What is waited for is cut where the times have no room behind it.
func timer(w *paceline.Wait, now time.Time, more, width int) string {
	who, times := clean(w.Provider)+": waiting for ", ": "+seconds(now.Sub(w.Since))
	if w.Until.After(now) {
		times += " of about " + seconds(w.Until.Sub(w.Since))
	}
	if more > 0 {
		times += fmt.Sprintf(" (%d more wait)", more)
	}
	what := []rune(object(w))
	if room := width - utf8.RuneCountInString(who+times); len(what) > room {
		what = append(what[:max(0, room-1)], '…')
	}
	return who + string(what) + times
}

// question is the prompt.
func question(w *paceline.Wait, now time.Time, cancels bool) []string {
	says := fmt.Sprintf("%s: waited %s for %s", clean(w.Provider), seconds(now.Sub(w.Since)), object(w))
	if w.Until.After(now) {
		says += fmt.Sprintf(", about %s to go", seconds(w.Until.Sub(now)))
	}
	keys := "[w] continue waiting"
	if mayForce(w) {
		keys += "  [s] send anyway"
	}
	if cancels {
		keys += "  [c] cancel"
	}
	return []string{says, because(w), keys + " "}
}

// object is what is waited for.
func object(w *paceline.Wait) string {
	switch {
	case w.Budget != nil:
		return unit(w.Budget.Unit, w.Budget.Window)
	case w.Why != "":
		return clean(w.Why)
	}
	switch w.Kind {
	case paceline.WaitQuota:
		return "a spent quota"
	case paceline.WaitPause, paceline.WaitOperator:
		return "the end of a pause"
	}
	return "its turn"
}

// because says what is left, or why there is nothing to choose.
func because(w *paceline.Wait) string {
	if b := w.Budget; b != nil {
		says := fmt.Sprintf("Projected: %d left", b.Remaining)
		if b.Limit > 0 {
			says = fmt.Sprintf("Projected: %d of %d left", b.Remaining, b.Limit)
		}
		if b.Floor > 0 {
			says += fmt.Sprintf(", %d are kept", b.Floor)
		}
		if b.Anyway {
			return says
		}
		return says + "; the provider stated this wait, so nothing is sent before"
	}
	switch w.Kind {
	case paceline.WaitTurn:
		return "Limits hold it back, and are not overstepped"
	case paceline.WaitOperator:
		return "paceline resume " + clean(w.Provider) + " ends it"
	}
	return "The provider stated this wait, so nothing is sent before"
}

// unit names what a bucket counts: tokens per minute.
func unit(unit, window string) string {
	unit = strings.ReplaceAll(clean(unit), "_", " ")
	if window == "" || window == "unknown" {
		return unit
	}
	return unit + " per " + clean(window)
}

// seconds writes a span for somebody who watches it pass.
func seconds(d time.Duration) string {
	if d >= 10*time.Minute {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// clean takes control characters out of what may have come from elsewhere.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
