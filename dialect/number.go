package dialect

import (
	"strconv"
	"strings"
	"time"
)

// digits is true for one or more ASCII digits and nothing else. The strconv
// parsers take signs, exponents, underscores and NaN, so every number is
// checked with it first.
func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// decimal splits "12.5" into its whole and fractional digits. Nothing else is
// a decimal: no sign, no exponent, no bare point.
func decimal(s string) (whole, fraction string, ok bool) {
	whole, fraction, point := strings.Cut(s, ".")
	if !digits(whole) || point && !digits(fraction) {
		return "", "", false
	}
	return whole, fraction, true
}

// scaled is whole.fraction × unit. It is false for more than 18 whole digits
// and where the product leaves time.Duration. Digits past the nanosecond round
// up, so that a wait is never a little short.
func scaled(whole, fraction string, unit time.Duration) (time.Duration, bool) {
	whole = strings.TrimLeft(whole, "0")
	if len(whole) > 18 {
		return 0, false
	}
	var n int64
	if whole != "" {
		n, _ = strconv.ParseInt(whole, 10, 64)
	}
	if n > int64(maxDuration/unit) {
		return 0, false
	}
	sum := time.Duration(n) * unit
	rest := unit
	for i := range len(fraction) {
		digit := time.Duration(fraction[i] - '0')
		step := rest / 10
		if step == 0 {
			if digit > 0 {
				sum++
				break
			}
			continue
		}
		// Minutes and hours do not divide by ten for ever: what a step loses
		// is under a microsecond, and goes up.
		sum += digit * step
		if digit > 0 && rest%10 != 0 {
			sum++
		}
		rest = step
	}
	return sum, sum >= 0
}

const maxDuration = time.Duration(1<<63 - 1)

// A count is what a limit or a remaining header said.
type count struct {
	n    int64
	said bool // a number could be read
	neg  bool // it had a minus sign: -1 is a marker, -4 an overdraft
}

// parseCount reads digits, with groups of three after commas allowed, and one
// minus sign.
func parseCount(s string) count {
	s = strings.TrimSpace(s)
	s, neg := strings.CutPrefix(s, "-")
	s = ungroup(s)
	if !digits(s) {
		return count{}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return count{}
	}
	if neg {
		n = -n
	}
	return count{n, true, neg && n != 0}
}

// ungroup takes the thousands separators out of "1,234,567". Groups of exactly
// three digits without a space are a separator; anything else is a list and
// comes back as it was.
func ungroup(s string) string {
	head, tail, found := strings.Cut(s, ",")
	if !found || len(head) > 3 || !digits(head) {
		return s
	}
	for group := range strings.SplitSeq(tail, ",") {
		if len(group) != 3 || !digits(group) {
			return s
		}
	}
	return strings.ReplaceAll(s, ",", "")
}
