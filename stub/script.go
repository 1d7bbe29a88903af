package stub

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// A Step is what a script does with one generation request. The zero Step
// leaves it to the meters. Any other step passes them by: nothing is counted
// in a meter, and only a scripted 429 counts as refused.
type Step struct {
	// Status to answer with, from 200 to 599. 0 means no scripted answer.
	Status int

	// Wait is told with the answer, in the form RetryAfter says. Where
	// RetryAfter is empty, a Wait above 0 is told in the stub's own form and a
	// Wait of 0 is not told.
	Wait       time.Duration
	RetryAfter RetryAfter

	// Header is added to the answer, and replaces what the stub would say
	// under the same names.
	Header http.Header

	// Body replaces the error in the API's shape.
	Body string

	// Fault strikes instead of an answer: any kind but a status.
	Fault FaultKind
}

func (st Step) tells(usual RetryAfter) RetryAfter {
	switch {
	case st.RetryAfter != "":
		return st.RetryAfter
	case st.Wait == 0:
		return RetryAfterNone
	default:
		return usual
	}
}

func (st Step) validate() error {
	var faults []error
	bad := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	if st.Status != 0 && (st.Status < 200 || st.Status > 599) {
		bad("status is %d; it must be from 200 to 599", st.Status)
	}
	if st.Status >= 200 && st.Status < 400 && st.Body == "" {
		bad("a status of %d needs a body", st.Status)
	}
	if st.Wait < 0 {
		bad("wait is %v; it must not be negative", st.Wait)
	}
	if err := known(st.RetryAfter, retryAfters); err != nil {
		bad("retry-after: %w", err)
	}
	strikes := []FaultKind{FaultReset, FaultCut, FaultSilence, FaultError, FaultLateError}
	if st.Fault != "" && !slices.Contains(strikes, st.Fault) {
		bad("fault: %w", unknown(string(st.Fault), strikes))
	}
	if st.Fault != "" && st.Status != 0 {
		bad("a status and a fault: use one")
	}
	if st.Status == 0 && (st.Wait != 0 || st.RetryAfter != "" || len(st.Header) > 0 || st.Body != "") {
		bad("a wait, a header or a body needs a status")
	}
	return errors.Join(faults...)
}

// nextStep uses up one step. It needs the lock.
func (s *Stub) nextStep() Step {
	if s.step == len(s.config.Script) {
		return Step{}
	}
	s.step++
	return s.config.Script[s.step-1]
}
