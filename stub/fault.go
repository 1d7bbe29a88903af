package stub

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A Fault is something that goes wrong with requests the meters admitted. At
// most one of Every, First and P may be set; with none it strikes them all.
//
// A reset and an error take no service and begin no generation. A cut loses
// the connection half way through the service, with the answer begun, and a
// late error ends the answer there. Silence keeps its place until the client
// leaves, and as long as a generation would have taken at least. The errors
// inside a 200 say that the provider is overloaded; a script can say anything.
type Fault struct {
	Kind FaultKind

	// Status of a [FaultStatus], from 400 to 599.
	Status int

	// Every strikes each Every-th admitted request.
	Every int

	// First strikes the first admitted requests, as many as it says.
	First int

	// P is the probability to strike, drawn for each request.
	P float64
}

// Faults is a list of faults, and as a flag value one that grows with each
// use of the flag.
type Faults []Fault

// strikes returns the fault that strikes the nth admitted request, the zero
// Fault for none.
func (fs Faults) strikes(n int, luck []float64) Fault {
	for i, f := range fs {
		var hit bool
		switch {
		case f.Every > 0:
			hit = n%f.Every == 0
		case f.First > 0:
			hit = n <= f.First
		case f.P > 0:
			hit = luck[i] < f.P
		default:
			hit = true
		}
		if hit {
			return f
		}
	}
	return Fault{}
}

func (f Fault) validate() error {
	var faults []error
	bad := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	if !slices.Contains(faultKinds, f.Kind) {
		faults = append(faults, unknown(string(f.Kind), faultKinds))
	}
	if f.Kind == FaultStatus && (f.Status < 400 || f.Status > 599) {
		bad("status is %d; it must be from 400 to 599", f.Status)
	}
	if f.Kind != FaultStatus && slices.Contains(faultKinds, f.Kind) && f.Status != 0 {
		bad("a %s has no status", f.Kind)
	}
	if f.Every < 0 || f.First < 0 {
		bad("every and first must not be negative")
	}
	if !(f.P >= 0 && f.P <= 1) {
		bad("p is %v; it must be from 0 to 1", f.P)
	}
	given := 0
	for _, set := range []bool{f.Every > 0, f.First > 0, f.P > 0} {
		if set {
			given++
		}
	}
	if given > 1 {
		bad("use one of every, first and p")
	}
	return errors.Join(faults...)
}

const faultSyntax = "KIND, KIND:every=K, KIND:first=N or KIND:p=0.1, where KIND is reset, cut, silence, error, late-error or a status from 400 to 599"

// ParseFault reads a fault from text: a kind (a [FaultKind], or the number
// of a status), and after a colon which requests it strikes. Examples
// are "reset:every=10", "503:first=2" and "cut:p=0.05".
func ParseFault(text string) (Fault, error) {
	kind, which, some := strings.Cut(strings.ToLower(strings.TrimSpace(text)), ":")
	wrong := func(why string) (Fault, error) {
		return Fault{}, fmt.Errorf("fault %q: %s: use %s", text, why, faultSyntax)
	}
	f := Fault{Kind: FaultKind(kind)}
	if status, err := strconv.Atoi(kind); err == nil {
		f.Kind, f.Status = FaultStatus, status
	} else if f.Kind == FaultStatus || !slices.Contains(faultKinds, f.Kind) {
		return wrong("unknown kind")
	}
	if some {
		name, value, _ := strings.Cut(which, "=")
		var err error
		switch name {
		case "every":
			f.Every, err = positive(value)
		case "first":
			f.First, err = positive(value)
		case "p":
			f.P, err = strconv.ParseFloat(value, 64)
			if err == nil && !(f.P > 0 && f.P <= 1) {
				err = errors.New("out of range")
			}
		default:
			return wrong(fmt.Sprintf("unknown part %q", which))
		}
		if err != nil {
			return wrong(fmt.Sprintf("bad number in %q", which))
		}
	}
	if err := f.validate(); err != nil {
		return wrong(err.Error())
	}
	return f, nil
}

func positive(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && n < 1 {
		err = errors.New("out of range")
	}
	return n, err
}

// String is the text [ParseFault] reads.
func (f Fault) String() string {
	text := string(f.Kind)
	if f.Kind == FaultStatus {
		text = strconv.Itoa(f.Status)
	}
	switch {
	case f.Every > 0:
		text += ":every=" + strconv.Itoa(f.Every)
	case f.First > 0:
		text += ":first=" + strconv.Itoa(f.First)
	case f.P > 0:
		text += ":p=" + strconv.FormatFloat(f.P, 'g', -1, 64)
	}
	return text
}

// Set adds the fault that text describes.
func (fs *Faults) Set(text string) error {
	f, err := ParseFault(text)
	if err != nil {
		return err
	}
	*fs = append(*fs, f)
	return nil
}

func (fs Faults) String() string {
	texts := make([]string, len(fs))
	for i, f := range fs {
		texts[i] = f.String()
	}
	return strings.Join(texts, ",")
}

// Type names the value in a command's help.
func (fs Faults) Type() string { return "KIND[:every=K|:first=N|:p=0.1]" }

// UnmarshalText reads a fault from text.
func (f *Fault) UnmarshalText(text []byte) error {
	read, err := ParseFault(string(text))
	if err == nil {
		*f = read
	}
	return err
}

// statusText is a fit message for codes net/http has no words for too.
func statusText(status int) string {
	if status == statusOverloaded {
		return overloaded
	}
	if text := http.StatusText(status); text != "" {
		return text
	}
	return "Status " + strconv.Itoa(status)
}

// statusOverloaded is what Anthropic answers when it has no capacity, and
// overloaded what it says then.
const (
	statusOverloaded = 529
	overloaded       = "Overloaded"
)
