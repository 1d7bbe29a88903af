package paceline

import "time"

// Cleared is what [Transport.Clear] forgets.
type Cleared string

// What can be forgotten.
const (
	ClearLearned Cleared = "learned" // factor, rate, spacing, places
	ClearBudget  Cleared = "budget"  // what the provider told is left
	ClearAll     Cleared = "all"     // both
)

// Pause closes every caller key of a provider until an instant, those not yet
// seen included. Requests under way go on. A zero until is as long as can be.
func (t *Transport) Pause(provider string, until time.Time, why string) error {
	t.once.Do(t.init)
	return t.err
}

// Resume ends every pause of a provider, an operator's, a learned and a stated
// one.
func (t *Transport) Resume(provider string) error {
	t.once.Do(t.init)
	return t.err
}

// Clear forgets what was learned or told of every caller key of a provider.
// Pauses stay: Resume ends them.
func (t *Transport) Clear(provider string, what Cleared) error {
	t.once.Do(t.init)
	return t.err
}
