package demo

import (
	"fmt"
	"time"

	"github.com/paceline-proxy/paceline"
)

// Words say what was seen, in a few sentences.
func Words(r Result) []string {
	burst, even := StatsOf(Burst, r).Total, StatsOf(Even, r).Total
	words := []string{side(Burst, burst), side(Even, even)}
	if burst.R429 > 0 && even.R429 == 0 && max(burst.PeakPerMin, even.PeakPerMin) <= PerMinute {
		words = append(words, fmt.Sprintf(
			"Both were told %d a minute and neither sent more: the provider keeps that limit as a %s. What counts is how the requests are spread.",
			PerMinute, bucket()))
	}
	if r.Took < r.Of {
		words = append(words, fmt.Sprintf("This is what was seen until it was ended after %v of %v.", r.Took.Round(time.Second), r.Of))
	}
	return words
}

// side says what became of one side's requests.
func side(name Pacing, t paceline.StatsRow) string {
	s := fmt.Sprintf("%s: ", name)
	switch {
	case t.Sent == 0:
		return s + "nothing was sent yet."
	case t.R429 == 0:
		s += fmt.Sprintf("none of %s refused", requests(t.Sent))
	default:
		s += fmt.Sprintf("%d of %s refused, ", t.R429, requests(t.Sent))
		switch limit := fmt.Sprintf("while under the limit of %d a minute", PerMinute); {
		case t.R429UnderLimit == t.R429 && t.R429 == 1:
			s += limit
		case t.R429UnderLimit == t.R429:
			s += "all " + limit
		default:
			s += fmt.Sprintf("%d of them %s", t.R429UnderLimit, limit)
		}
	}
	s += fmt.Sprintf("; %d answered", t.OK)
	if failed := t.Err + t.Timeout; failed > 0 {
		s += fmt.Sprintf(", %d failed", failed)
	}
	return s + "."
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}
