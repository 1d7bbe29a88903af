package budget

// A Charge is what one request takes of a provider's buckets of tokens, or is
// estimated to: Tokens are those of prompt and answer together. Of requests it
// takes one.
type Charge struct{ Tokens, Input, Output int }

// Most is the larger of two in each unit.
func (c Charge) Most(d Charge) Charge {
	return Charge{max(c.Tokens, d.Tokens), max(c.Input, d.Input), max(c.Output, d.Output)}
}
