package address

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for _, good := range []string{
		"memory", "sqlite:limits.db", "sqlite:/var/lib/l.db?x=1", "redis://localhost", "redis://me:SECRET@localhost:6379/0?tag=a", "rediss://r.example:6380",
		"postgres://h/d", "postgresql://u:p@h:5432/d?schema=s", "postgres://a:1,b:2/d", "http://h:1", "https://h/x", "unix:/run/l.sock", "module:mine",
	} {
		if f := Check(good); f != nil {
			t.Errorf("%s: %v", good, f)
		}
	}
	for bad, want := range map[string]string{
		"":                             "is empty",
		"memry":                        "did you mean memory?",
		"reddis://me:SECRET@h":         "did you mean redis?",
		"postgre://h/d":                "did you mean postgres?",
		"sqlit:x":                      "did you mean sqlite?",
		"memory:x":                     "memory alone",
		"sqlite:":                      "names no file",
		"unix:":                        "names no socket",
		"module:../x":                  "names no module",
		"ftp://h":                      "no scheme that is known",
		"somewhere":                    "is none",
		"redis:localhost":              "no // behind redis:",
		"redis://:SECRET%@h":           "%40 for @",
		"redis://me:SEC/RET@h:x":       "is no URL",
		"http:///x":                    "names no host",
		"postgres://me:SECRET@h:/d":    "no port behind the colon",
		"redis://me:SECRET@localhost:": "no port behind the colon",
	} {
		f := Check(bad)
		if f == nil || !strings.Contains(f.Error(), want) {
			t.Errorf("%s: %v, want %q", bad, f, want)
		} else if strings.Contains(f.Error(), "SECRET") {
			t.Errorf("%s: shown: %v", bad, f)
		}
	}
}

func TestRedacted(t *testing.T) {
	for address, want := range map[string]string{
		"memory":                 "memory",
		"sqlite:/a/b.db?key=SEC": "sqlite:/a/b.db",
		"unix:/run/l.sock":       "unix:/run/l.sock",
		"module:mine":            "module:mine",
		"redis://me:SEC@h:1/0":   "redis://h:1/0",
		"redis://h/0?tag=a&password=SEC&strict=1": "redis://h/0?strict=1&tag=a",
		"postgres://u:SEC@h/d?password=SEC@x":     "postgres://h/d",
		"postgres://u:S/EC@h:x/d":                 "postgres://(hidden)",
		"redis:SEC":                               "redis://(hidden)",
		"SEC":                                     "(hidden)",
	} {
		if got := Redacted(address); got != want {
			t.Errorf("%s is shown as %s, want %s", address, got, want)
		}
	}
}

func TestWithSecret(t *testing.T) {
	for address, want := range map[string]string{
		"redis://h:1":      "redis://:a%2Fb@h:1",
		"redis://me@h:1":   "redis://me:a%2Fb@h:1",
		"postgres://u@h/d": "postgres://u:a%2Fb@h/d",
		"http://h":         "http://h",
		"sqlite:x":         "sqlite:x",
	} {
		if got := WithSecret(address, "a/b"); got != want {
			t.Errorf("%s becomes %s, want %s", address, got, want)
		}
	}
	if !HasPassword("redis://:x@h") || !HasPassword("postgres://h/d?password=x") || HasPassword("redis://me@h") {
		t.Error("what has a password")
	}
}
