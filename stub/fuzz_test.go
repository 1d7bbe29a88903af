package stub_test

import (
	"encoding"
	"flag"
	"reflect"
	"strings"
	"testing"

	"github.com/paceline-proxy/paceline/stub"
)

// FuzzParseFault reads any text: what is read is a fault that a stub takes,
// and its own text reads as the same.
func FuzzParseFault(f *testing.F) {
	for _, text := range []string{
		"reset", "late-error", "error:first=3", "silence:every=10", " 503:FIRST=2 ", "cut:p=0.05", "529:p=1e-9", "reset:p=0x1p-3", "cut:p=NaN", "cut:p=5e-324",
		"+404", "0500", "status", "reset:every=+3", "reset:every=", "reset:", ":", "", "599:first=99999999999999999999", "cut:every=1_0",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fault, err := stub.ParseFault(text)
		if err != nil {
			if fault != (stub.Fault{}) || !strings.Contains(err.Error(), "KIND:every=K") {
				t.Errorf("%q: %+v, %v", text, fault, err)
			}
			return
		}
		if again, err := stub.ParseFault(fault.String()); err != nil || again != fault {
			t.Errorf("%q is %+v, whose text %q is %+v, %v", text, fault, fault, again, err)
		}
		if _, err := stub.New(stub.Config{Faults: stub.Faults{fault}}); err != nil {
			t.Errorf("%q was read and not taken: %v", text, err)
		}
	})
}

// FuzzFlagValues sets every flag value to any text: it is taken, and then the
// value's own text sets the same and a stub takes it, or it is refused with
// what is allowed and nothing is changed.
func FuzzFlagValues(f *testing.F) {
	for _, text := range []string{"rolling", " Bucket\t", "concurrent", "MS", "date", "openai", "none", "head", "503:first=2", "", "ſeconds", "K"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, fresh := range map[string]func(*stub.Config) flag.Value{
			"meter":       func(c *stub.Config) flag.Value { c.Meters = []stub.Meter{{Limit: 1}}; return &c.Meters[0].Kind },
			"retry-after": func(c *stub.Config) flag.Value { return &c.RetryAfter },
			"headers":     func(c *stub.Config) flag.Value { return &c.Headers },
			"headers-at":  func(c *stub.Config) flag.Value { return &c.HeadersAt },
			"fault":       func(c *stub.Config) flag.Value { return &c.Faults },
		} {
			var c, again, fromText stub.Config
			v, empty := fresh(&c), fresh(&again).String()
			err := v.Set(text)
			if u, ok := fresh(&fromText).(encoding.TextUnmarshaler); ok && (u.UnmarshalText([]byte(text)) == nil) != (err == nil) {
				t.Errorf("--%s %q: text and flag differ: %v", name, text, err)
			}
			if err != nil {
				if v.String() != empty || !strings.Contains(err.Error(), "use ") {
					t.Errorf("--%s %q: %q, %v", name, text, v, err)
				}
				continue
			}
			if err := fresh(&again).Set(v.String()); err != nil || !reflect.DeepEqual(c, again) {
				t.Errorf("--%s %q is %q, which sets %+v, %v", name, text, v, again, err)
			}
			if _, err := stub.New(c); err != nil {
				t.Errorf("--%s %q was set and not taken: %v", name, text, err)
			}
		}
	})
}
