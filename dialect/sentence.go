package dialect

import (
	"regexp"
	"strings"
)

// A namedLimit is the limit that a sentence, a code or a metric's name says was
// exceeded. Window "" is not said; long is a window of a day or more.
type namedLimit struct {
	unit, window string
	long         bool
	// policy is the name of a published policy instead.
	policy string
}

// refused is the bucket behind a limit that was named while refusing.
func (n namedLimit) refused(limit count) bucket {
	b := bucket{long: n.long, remaining: count{said: true}}
	b.Unit, b.Window = n.unit, n.window
	b.limit = limit
	return b
}

var (
	perWindow = regexp.MustCompile(`(?:\bper\s+|\s/\s*|(?:^|\s)[0-9][0-9,]*/)(?:1\s+)?(second|sec|minute|min|hour|day|week|month)\b`)
	everyWord = regexp.MustCompile(`\b(daily|weekly|monthly|hourly)\b`)
	initials  = regexp.MustCompile(`\b(i|o)?(r|t)p(s|m|h|d)\b`)
	unitWord  = regexp.MustCompile(`\b(?:(input|prompt|output|completion|generated)\s+)?(tokens?|requests?|queries|calls)\b`)
)

var windowOf = map[string]string{
	"second": Second, "sec": Second, "s": Second,
	"minute": Minute, "min": Minute, "m": Minute,
	"hour": Hour, "hourly": Hour, "h": Hour,
	"day": Day, "daily": Day, "d": Day,
	"week": Unknown, "weekly": Unknown,
	"month": Month, "monthly": Month,
}

// nameLimit finds the first window named in words or initials, and the unit
// counted in it. words are lower case.
func nameLimit(words string) namedLimit {
	var n namedLimit
	if m := initials.FindStringSubmatch(words); m != nil {
		n.window = windowOf[m[3]]
		switch {
		case m[2] == "r":
			n.unit = Requests
		case m[1] == "i":
			n.unit = InputTokens
		case m[1] == "o":
			n.unit = OutputTokens
		default:
			n.unit = Tokens
		}
		n.long = m[3] == "d"
		return n
	}
	before := words
	word := ""
	if m := perWindow.FindStringSubmatchIndex(words); m != nil {
		word, before = words[m[2]:m[3]], words[:m[0]]
	} else if m := everyWord.FindStringSubmatch(words); m != nil {
		word = m[1]
	}
	n.window = windowOf[word]
	n.long = n.window == Day || n.window == Month || strings.HasPrefix(word, "week")
	// The unit stands before its window: "input tokens per minute".
	if all := unitWord.FindAllStringSubmatch(before, 32); all != nil {
		n.unit = unitOf(all[len(all)-1][1], all[len(all)-1][2])
	}
	return n
}

func unitOf(side, noun string) string {
	if !strings.HasPrefix(noun, "token") {
		return Requests
	}
	switch side {
	case "input", "prompt":
		return InputTokens
	case "output", "completion", "generated":
		return OutputTokens
	}
	return Tokens
}

// A refusedLimit is a sentence with its numbers: "Rate limit reached … on
// tokens per day (TPD): Limit 100000, Used 97843, Requested 9191."
type refusedLimit struct {
	namedLimit
	limit, used, requested count
	text                   string
}

var (
	limitWord     = regexp.MustCompile(`\b(?:limit:?|limited to)\s+([0-9][0-9,]*)`)
	usedWord      = regexp.MustCompile(`\b(?:used|current):?\s+([0-9][0-9,]*)`)
	requestedWord = regexp.MustCompile(`\brequested:?\s+([0-9][0-9,]*)`)
	// "Rate limit of 50 per 86400s exceeded"
	ofPerSeconds = regexp.MustCompile(`\blimit of ([0-9][0-9,]*) per ([0-9]{1,9})s\b`)
)

// readLimit reads such a sentence; false where it names no limit.
func readLimit(text string) (refusedLimit, bool) {
	words := strings.NewReplacer("_", " ", "-", " ").Replace(strings.ToLower(text))
	if m := ofPerSeconds.FindStringSubmatch(words); m != nil {
		w := seconds(parseCount(m[2]).n)
		r := refusedLimit{limit: parseCount(m[1]), text: text}
		r.unit, r.window, r.long = Requests, w.name, w.long
		return r, w.name != ""
	}
	r := refusedLimit{namedLimit: nameLimit(words), text: text}
	r.limit = numberAfter(limitWord, words)
	r.used = numberAfter(usedWord, words)
	r.requested = numberAfter(requestedWord, words)
	return r, r.window != ""
}

func numberAfter(word *regexp.Regexp, text string) count {
	if m := word.FindStringSubmatch(text); m != nil {
		return parseCount(strings.TrimRight(m[1], ","))
	}
	return count{}
}

// tooLarge is true where the request alone exceeds the limit.
func (r refusedLimit) tooLarge() bool {
	return r.limit.said && r.requested.said && r.requested.n > r.limit.n
}

// bucket is what the sentence reports; false where it gives no limit. A refused
// request leaves no other request in its window; tokens may be left, merely
// too few, and are only known where what is used was said.
func (r refusedLimit) bucket() (bucket, bool) {
	if !r.limit.said || r.unit == "" {
		return bucket{}, false
	}
	b := r.refused(r.limit)
	switch {
	case r.used.said:
		b.remaining = count{n: max(0, r.limit.n-r.used.n), said: true}
	case r.unit != Requests || r.tooLarge():
		b.remaining = count{}
	}
	return b, true
}
