package stub_test

import (
	"cmp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/stub"
)

// What the stub says in each provider's way is what paceline reads in it: the
// wait told by a refusal, and what is left of the meter, on success and on
// refusal, where the provider tells it.
func TestDialectsReadWhatIsTold(t *testing.T) {
	const limit = 5
	const untold = -1
	for of, want := range map[stub.Headers]struct {
		dialect          string        // empty: of the same name
		success, refusal int           // what is left, as told
		silent           bool          // no wait is told
		class            dialect.Class // of a refusal; empty: rate limited
		per              time.Duration // 0: a minute
	}{
		stub.HeadersOpenAI:       {success: 4},
		stub.HeadersXAI:          {success: 4},
		stub.HeadersAzure:        {success: 4},
		stub.HeadersGitHubModels: {dialect: "github", success: 4},
		stub.HeadersAnthropic:    {success: 4},
		stub.HeadersClaudePlan:   {dialect: "anthropic", success: untold, class: dialect.QuotaExhausted, per: 5 * time.Hour},
		stub.HeadersCodex:        {success: untold, refusal: untold, class: dialect.QuotaExhausted, per: 5 * time.Hour},
		stub.HeadersGroq:         {success: 4, per: 24 * time.Hour, class: dialect.QuotaExhausted},
		stub.HeadersCerebras:     {success: 4, refusal: untold},
		stub.HeadersMistral:      {success: 4, silent: true},
		stub.HeadersTogether:     {success: 4, per: time.Second},
		stub.HeadersFireworks:    {success: 4, silent: true},
		stub.HeadersCohere:       {success: 4, silent: true},
		stub.HeadersGitHub:       {success: 4, per: time.Hour, class: dialect.QuotaExhausted}, // its reset is an hour away
		stub.HeadersIETF:         {success: 4},
		stub.HeadersCloudflare:   {success: 4},
		stub.HeadersHuggingFace:  {success: 4},
		stub.HeadersLiteLLM:      {success: 4},
		stub.HeadersDigitalOcean: {success: 4},
		stub.HeadersOpenRouter:   {success: untold},
		stub.HeadersGemini:       {success: untold},
		stub.HeadersVertex:       {success: untold, refusal: untold, silent: true},
		stub.HeadersBedrock:      {success: untold, refusal: untold, silent: true},
		stub.HeadersBrightData:   {success: untold, refusal: untold, silent: true},
		stub.HeadersDeepSeek:     {success: untold, refusal: untold, silent: true},
		stub.HeadersNvidia:       {success: untold, refusal: untold, silent: true},
		stub.HeadersPerplexity:   {success: untold, refusal: untold, silent: true},
		stub.HeadersOllama:       {success: untold, refusal: untold, silent: true, class: dialect.Overloaded},
		stub.HeadersLlamaCpp:     {success: untold, refusal: untold, silent: true, class: dialect.Unavailable},
	} {
		t.Run(string(of), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(26 * 365 * 24 * time.Hour) // to where epochs have ten digits
				per := cmp.Or(want.per, time.Minute)
				s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Bucket, Limit: limit, Per: per}}, Headers: of})
				d, known := dialect.ByName(cmp.Or(want.dialect, string(of)))
				if !known {
					t.Fatal("no such dialect")
				}
				read := func(when string, class dialect.Class, remaining int) dialect.Reading {
					t.Helper()
					resp, body := post(t, s, chat, `{}`)
					r := d.Read(dialect.Head{Status: resp.StatusCode, Header: resp.Header, Received: time.Now(), Date: time.Now()}, []byte(body))
					if r.Class != class {
						t.Errorf("%s is %s, want %s: %s", when, r.Class, class, r.Why)
					}
					told := untold
					for _, b := range r.Buckets {
						if b.Remaining != nil {
							told = int(*b.Remaining)
						}
						if b.Limit != nil && *b.Limit != limit {
							t.Errorf("%s: a limit of %d", when, *b.Limit)
						}
					}
					if told != remaining {
						t.Errorf("%s: %d remaining, want %d: %+v", when, told, remaining, r)
					}
					return r
				}
				read("a success", dialect.OK, want.success)
				for range limit - 1 {
					post(t, s, chat, `{}`)
				}
				r := read("a refusal", cmp.Or(want.class, dialect.RateLimited), want.refusal)
				if r.Told == want.silent || r.Told && (r.Wait < per/limit || r.Wait > per+time.Second) {
					t.Errorf("told %v: %v, and one comes back after %v: %s", r.Told, r.Wait, per/limit, r.Why)
				}
			})
		})
	}
}

// The ways of refusing that are no provider's are read as what they are, in any
// dialect.
func TestWaysOfRefusing(t *testing.T) {
	for way, want := range map[stub.Refusals]struct {
		status int
		class  dialect.Class
	}{
		stub.RefusalsTooLarge:   {413, dialect.RateLimited},
		stub.RefusalsQueueFull:  {503, dialect.Overloaded},
		stub.RefusalsTGI:        {429, dialect.Overloaded},
		stub.RefusalsOverloaded: {529, dialect.Overloaded},
	} {
		for _, url := range []string{chat, messages} {
			s := mustStub(t, stub.Config{Meters: []stub.Meter{{Kind: stub.Rolling, Limit: 1}}, Headers: stub.HeadersOpenAI, Refusals: way})
			post(t, s, url, `{}`)
			resp, body := post(t, s, url, `{}`)
			for _, d := range []*dialect.Dialect{dialect.Generic, dialect.OpenAI, dialect.Anthropic, dialect.VLLM} {
				r := d.Read(dialect.Head{Status: resp.StatusCode, Header: resp.Header}, []byte(body))
				if resp.StatusCode != want.status || r.Class != want.class || r.TooLarge != (want.status == 413) {
					t.Errorf("%s in %s: %d is %+v: %s", way, d.Name, resp.StatusCode, r, body)
				}
			}
			if c := s.Counts(); c.Refused != 1 || resp.Header.Get("Retry-After") != "" {
				t.Errorf("%s: %+v, %v", way, c, resp.Header)
			}
		}
		var flag stub.Refusals
		if err := flag.Set(string(way)); err != nil || flag != way {
			t.Errorf("%s: %q, %v", way, flag, err)
		}
	}
	if _, err := stub.New(stub.Config{Headers: stub.Headers(stub.RefusalsTooLarge)}); err == nil {
		t.Error("a way of refusing is taken for headers")
	}
}
