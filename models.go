package paceline

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// modelLimits are the limits of the models that match a pattern.
type modelLimits struct {
	pattern string
	limits  Limits
}

// modelLimits fills in the limits of models, the most particular first.
func (p *Provider) modelLimits() (models []modelLimits, err error) {
	var errs []error
	// How a limit is kept comes from the entry, the rates do not.
	defaults := Limits{Pacing: p.Pacing, SafetyMargin: p.SafetyMargin, WindowSlack: p.WindowSlack, Adaptive: p.Adaptive}
	for pattern, l := range p.Models {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || pattern != strings.ToLower(pattern) {
			errs = append(errs, fmt.Errorf("models: %q is not a pattern: give a model's name in lower case, in which * stands for anything but a slash", pattern))
		}
		if err := l.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("models: %q: %w", pattern, err))
		}
		models = append(models, modelLimits{pattern, l.Or(defaults)})
	}
	slices.SortFunc(models, func(a, b modelLimits) int {
		return cmp.Or(particular(a.pattern)-particular(b.pattern), len(b.pattern)-len(a.pattern), strings.Compare(a.pattern, b.pattern))
	})
	return models, errors.Join(errs...)
}

// particular is 0 for the name of one model.
func particular(pattern string) int {
	if strings.ContainsAny(pattern, `*?[\`) {
		return 1
	}
	return 0
}

// covers reports whether a model has these limits, with or without its date.
func (m modelLimits) covers(model string) bool {
	for _, name := range []string{strings.ToLower(model), scopeOf(model)} {
		if ok, _ := path.Match(m.pattern, name); ok {
			return true
		}
	}
	return false
}
