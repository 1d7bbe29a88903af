package dialect

import "strings"

// A verdict is what one machine code means.
type verdict struct {
	class      Class
	concurrent bool
}

// plainCode writes a code without case, separators and the namespace some
// providers put in front: "com.amazonaws#ThrottlingException" and
// ".../http-problem-types#quota-exceeded" lose all up to the last # or slash.
func plainCode(s string) string {
	if len(s) > 256 {
		return ""
	}
	if i := strings.LastIndexAny(s, "#/"); i >= 0 {
		s = s[i+1:]
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return -1
	}, s)
}

// codes are the machine codes that more than one provider sends, or that can
// mean nothing else.
var codes = map[string]verdict{
	"billingerror":            {class: Billing},
	"billinghardlimitreached": {class: Billing},
	"billingnotactive":        {class: Billing},
	"billingdisabled":         {class: Billing},
	"paymentrequired":         {class: Billing},
	"creditbalanceexhausted":  {class: Billing},
	"creditsexhausted":        {class: Billing},
	"outofcredits":            {class: Billing},
	"arrearage":               {class: Billing},

	"quotaexhausted":     {class: QuotaExhausted},
	"dailylimitexceeded": {class: QuotaExhausted},

	"queueexceeded":               {class: Overloaded},
	"modelcapacityexhausted":      {class: Overloaded},
	"capacityexceeded":            {class: Overloaded},
	"serverbusy":                  {class: Overloaded},
	"temporaryreducedcapacity":    {class: Overloaded},
	"modelnotreadyexception":      {class: Unavailable},
	"apierror":                    {class: Unavailable},
	"servererror":                 {class: Unavailable},
	"internalservererror":         {class: Unavailable},
	"internalerror":               {class: Unavailable},
	"unavailableerror":            {class: Unavailable},
	"serviceunavailable":          {class: Unavailable},
	"serviceunavailableexception": {class: Unavailable},

	"slowdown":              {class: RateLimited},
	"resourceexhausted":     {class: RateLimited},
	"abnormalusagedetected": {class: RateLimited},
	"1302":                  {class: RateLimited, concurrent: true},

	// A full disk is not a rate.
	"storagequotaexceeded": {class: Rejected},
}

// codeParts are pieces that settle what a longer code means, tried in order.
var codeParts = []struct {
	part string
	verdict
}{
	{"insufficientquota", verdict{class: Billing}},
	{"insufficientbalance", verdict{class: Billing}},
	{"insufficientcredit", verdict{class: Billing}},
	{"insufficientfunds", verdict{class: Billing}},
	{"spendlimit", verdict{class: QuotaExhausted}},
	{"usagelimit", verdict{class: QuotaExhausted}},
	{"overloaded", verdict{class: Overloaded}},
	{"concurren", verdict{class: RateLimited, concurrent: true}},
	{"ratelimit", verdict{class: RateLimited}},
	{"toomanyrequests", verdict{class: RateLimited}},
	{"throttl", verdict{class: RateLimited}},
	{"quotaexceeded", verdict{class: RateLimited}},
}

// judgeCode says what a code means, false for one that tells nothing.
func judgeCode(plain string) (verdict, bool) {
	if v, ok := codes[plain]; ok {
		return v, true
	}
	for _, p := range codeParts {
		if strings.Contains(plain, p.part) {
			return p.verdict, true
		}
	}
	return verdict{}, false
}

// rank orders the classes of several codes in one answer: the sharpest reason
// stands beside a vaguer one, never the other way round.
var rank = map[Class]int{Billing: 5, QuotaExhausted: 4, Overloaded: 3, RateLimited: 2, Unavailable: 1}

// judgeCodes returns the sharpest verdict among the codes of an answer and the
// code it came from.
func judgeCodes(plain []string) (best verdict, from string) {
	concurrent := false
	for _, c := range plain {
		v, ok := judgeCode(c)
		if !ok {
			continue
		}
		concurrent = concurrent || v.concurrent
		if rank[v.class] > rank[best.class] {
			best, from = v, c
		}
	}
	best.concurrent = concurrent
	return best, from
}
