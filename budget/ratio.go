package budget

import (
	"math"
	"slices"
	"time"
)

// Ratios are what answers were charged, compared with what had been estimated
// for their requests, by model and kind of request. Estimates go by the length
// of a request, which knows nothing of caches, languages and long answers; what
// its like were charged does.
type Ratios []Ratio

// A Ratio is that of one kind: the requests to a model that begin a
// conversation, or those that go on with one.
type Ratio struct {
	Model string `json:"model,omitempty"`
	Later bool   `json:"later,omitempty"`
	// The latest samples of each unit, the oldest first, in ten-thousandths.
	Tokens []int32 `json:"tokens,omitempty"`
	Input  []int32 `json:"input,omitempty"`
	Output []int32 `json:"output,omitempty"`
	// Largest is the most that one request was charged.
	Largest Charge    `json:"largest,omitzero"`
	Changed time.Time `json:"changed,omitzero"`
}

// The bounds of what is kept.
const (
	mostRatios  = 16
	mostSamples = 50
	mostModel   = 128 // bytes of a model's name
	// A sample is a ratio in ten-thousandths; one beyond ten thousand is a
	// mistake.
	sampled    = 10_000
	mostSample = 10_000 * sampled
	mostCharge = 1 << 40
)

// Learn takes in what an answer was charged for whose request so much had been
// estimated. A unit of which nothing was estimated is not known.
func (rs *Ratios) Learn(now time.Time, model string, later bool, estimated, charged Charge) {
	if len(model) > mostModel {
		return
	}
	r := rs.find(model, later)
	if r == nil {
		if len(*rs) >= mostRatios {
			rs.drop()
		}
		*rs = append(*rs, Ratio{Model: model, Later: later})
		r = &(*rs)[len(*rs)-1]
	}
	r.Changed = now
	for _, u := range []struct {
		samples            *[]int32
		largest            *int
		estimated, charged int
	}{
		{&r.Tokens, &r.Largest.Tokens, estimated.Tokens, charged.Tokens},
		{&r.Input, &r.Largest.Input, estimated.Input, charged.Input},
		{&r.Output, &r.Largest.Output, estimated.Output, charged.Output},
	} {
		if u.estimated <= 0 {
			continue
		}
		if len(*u.samples) >= mostSamples {
			*u.samples = append((*u.samples)[:0], (*u.samples)[len(*u.samples)-mostSamples+1:]...)
		}
		ratio := math.Ceil(float64(max(0, u.charged)) / float64(u.estimated) * sampled)
		*u.samples = append(*u.samples, int32(min(ratio, mostSample)))
		*u.largest = max(*u.largest, min(u.charged, mostCharge))
	}
}

// Of is an estimate of a request, put right by what its like were charged: by
// the 95th percentile of the latest ratios, so that one in twenty is more.
func (rs Ratios) Of(model string, later bool, estimated Charge) Charge {
	r := rs.find(model, later)
	if r == nil {
		return estimated
	}
	return Charge{
		Tokens: scaled(estimated.Tokens, r.Tokens),
		Input:  scaled(estimated.Input, r.Input),
		Output: scaled(estimated.Output, r.Output),
	}
}

// Largest is the most that one request of any kind was charged.
func (rs Ratios) Largest() (c Charge) {
	for _, r := range rs {
		c = c.Most(r.Largest)
	}
	return c
}

func scaled(estimated int, samples []int32) int {
	if len(samples) == 0 {
		return estimated
	}
	var sorted [mostSamples]int32
	n := copy(sorted[:], samples)
	slices.Sort(sorted[:n])
	ratio := float64(sorted[(95*n+99)/100-1]) / sampled
	return int(min(math.Ceil(float64(estimated)*ratio), mostCharge))
}

func (rs Ratios) find(model string, later bool) *Ratio {
	for i := range rs {
		if rs[i].Model == model && rs[i].Later == later {
			return &rs[i]
		}
	}
	return nil
}

// drop forgets the kind that nothing was learned of for longest.
func (rs *Ratios) drop() {
	oldest := 0
	for i, r := range *rs {
		if r.Changed.Before((*rs)[oldest].Changed) {
			oldest = i
		}
	}
	*rs = slices.Delete(*rs, oldest, oldest+1)
}

// since is those that something was learned of after an instant.
func (rs Ratios) since(at time.Time) Ratios {
	return slices.DeleteFunc(slices.Clone(rs), func(r Ratio) bool { return !r.Changed.After(at) })
}

// sane makes what a store says of ratios possible at now.
func (rs Ratios) sane(now time.Time) Ratios {
	kept := rs[:0]
	for _, r := range rs {
		if len(r.Model) > mostModel || kept.find(r.Model, r.Later) != nil {
			continue
		}
		if r.Changed.After(now) {
			r.Changed = now
		}
		for _, samples := range []*[]int32{&r.Tokens, &r.Input, &r.Output} {
			*samples = (*samples)[max(0, len(*samples)-mostSamples):]
			for i, n := range *samples {
				(*samples)[i] = min(max(0, n), mostSample)
			}
		}
		for _, n := range []*int{&r.Largest.Tokens, &r.Largest.Input, &r.Largest.Output} {
			*n = min(max(0, *n), mostCharge)
		}
		kept = append(kept, r)
	}
	return kept.newest()
}

// merge joins what two processes know: of each kind what was learned last.
func (rs Ratios) merge(other Ratios) Ratios {
	m := slices.Clone(rs)
	for _, o := range other {
		if r := m.find(o.Model, o.Later); r == nil {
			m = append(m, o)
		} else if o.Changed.After(r.Changed) {
			o.Largest = o.Largest.Most(r.Largest)
			*r = o
		}
	}
	return m.newest()
}

// newest is as many as are kept, those that were learned last.
func (rs Ratios) newest() Ratios {
	if len(rs) <= mostRatios {
		return rs
	}
	slices.SortStableFunc(rs, func(a, b Ratio) int { return b.Changed.Compare(a.Changed) })
	return rs[:mostRatios]
}

// Most is the larger of two charges in each unit.
func (c Charge) Most(d Charge) Charge {
	return Charge{max(c.Tokens, d.Tokens), max(c.Input, d.Input), max(c.Output, d.Output)}
}
