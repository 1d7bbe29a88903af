package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/policy"
)

// table is every key there is, read into c.
func table(c *Config) object {
	return object{fields: []field{
		{name: "listen", kind: list[string]{p: &c.Listen, what: "addresses", of: address, single: true},
			doc: "Where to serve: HOST:PORT, unix:PATH, or a list of them. localhost is both loopback addresses. Anything but a loopback address needs a token. An address named here that is taken is an error; the default one is replaced by a free port."},
		{name: "allowHosts", kind: list[string]{p: &c.AllowHosts, what: "host names", of: hostName},
			doc: "Values of the Host header that are let in beside loopback addresses and localhost, without a port. A request with a token is not checked."},
		{name: "mode", kind: oneOf(&c.Mode, paceline.Enforce, paceline.Observe, paceline.Off),
			doc: "enforce: requests wait for their turn. observe: they are sent at once, and recorded with what they would have waited and why. off: they are sent and recorded."},
		{name: "limiter", kind: object{fields: []field{
			{name: "url", kind: place{&c.Limiter.URL}, def: "memory",
				doc: "Where grants are counted. memory: in the server, with a journal in the home. sqlite: in a file, for the processes of one machine. redis (rediss with TLS) and postgres: in a server, for many hosts. http, https and unix: behind the wire, where paceline limiter serve or another limiter answers. module: of a folder in modules of the home. Settings of a server follow a question mark: tag and strict of redis, schema, durable and migrate of postgres."},
			{name: "secret", kind: secret{&c.Limiter.Secret, nil}, def: "what the URL has",
				doc: "The password of redis or postgres, or the secret of the wire."},
			{name: "onFailure", kind: oneOf(&c.Limiter.OnFailure, "local", "open", "closed"),
				doc: "What holds while a shared limiter cannot be reached, which is after three failures in a row. local: this server's share of every limit, and what it was granted before counts. open: no limits, but for the waits that providers state. closed: nothing is sent."},
			{name: "localShare", kind: fraction{p: &c.Limiter.Share, max: 1, over: true, zero: "auto"},
				doc: "The part of each limit that this server takes under onFailure: local. auto: one part for each host seen in the last ten minutes, at most a half."},
			{name: "timeoutMs", kind: ms(&c.Limiter.Timeout, time.Millisecond),
				doc: "How long each call of a shared limiter may take."},
		}}, doc: "The limiter, and what happens while it is out of reach."},
		{name: "defaultProvider", kind: object{fields: []field{
			{name: "openai", kind: text[string]{p: &c.DefaultProvider.OpenAI, what: "the name of a provider"},
				doc: "For requests in OpenAI's shape."},
			{name: "anthropic", kind: text[string]{p: &c.DefaultProvider.Anthropic, what: "the name of a provider"},
				doc: "For requests with an anthropic-version header or to /v1/messages."},
		}}, doc: "The provider of requests to /v1/… that name none."},
		{name: "tokens", kind: list[Token]{p: &c.Tokens, what: "tokens", of: tokenFields},
			doc: "Who may use the configured keys, beside callers of the same user and the home's own token."},
		{name: "clients", kind: byName(&c.Clients, "clients' names", clientName, client),
			doc: "What holds for the requests of a client: /as/NAME/ in the base URL, X-Paceline-Client, or the name of its token."},
		{name: "clientTimeoutMs", kind: ms(&c.ClientTimeout, time.Second),
			doc: "How long clients are known to wait for an answer. At 90 % of it a request that was not sent yet is answered 429, to come again at once; its place in line is kept."},
		{name: "maxReplayBytes", kind: count[int64]{p: &c.MaxReplayBytes, max: mostCalls, bytes: true},
			doc: "The longest body that is kept to be sent again. Longer ones stream, and are not retried."},
		{name: "queue", kind: object{fields: []field{
			{name: "keepMs", kind: ms(&c.Queue.Keep, 0),
				doc: "How long a place in line outlives the connection of its request."},
			{name: "maxWaiting", kind: number(&c.Queue.MaxWaiting, 1, 1000000),
				doc: "The requests that may wait. More are answered 503."},
			{name: "maxHeldBytes", kind: count[int64]{p: &c.Queue.MaxHeldBytes, min: 1, max: mostCalls, bytes: true},
				doc: "The bytes of bodies that may wait. More are answered 503."},
		}}, doc: "Bounds of what waits."},
		{name: "drain", kind: object{fields: []field{
			{name: "maxMs", kind: ms(&c.DrainMax, 0),
				doc: "How long a server that stops goes on copying the answers that are under way."},
		}}, doc: "How a server stops."},
		{name: "idleExitMs", kind: ms(&c.IdleExit, 0),
			doc: "After how long without a request a server leaves that was started by a command such as exec. 0: never."},
		{name: "upstream", kind: upstream(&c.Upstream),
			doc: "How providers are reached."},
		{name: "background", kind: object{fields: []field{
			{name: "share", kind: fraction{p: &c.BackgroundShare, max: 1, over: true},
				doc: "The part of each rate that background requests may use while others were started in the last minute. Alone they use everything."},
		}}, doc: "Requests of priority background."},
		{name: "budget", kind: object{fields: []field{
			{name: "enable", kind: truth{&c.Budget.Enable},
				doc: "Whether what providers report to be left of their limits is kept and waited for. false: requests are sent, and a refusal waits as it says."},
			{name: "logOnly", kind: truth{&c.Budget.LogOnly},
				doc: "Keep what providers report, and never wait for it: the log says what a request would have waited (observed_ms, observed_why)."},
		}}, doc: "What providers report of their limits."},
		{name: "wait", kind: object{fields: []field{
			{name: "show", kind: truth{&c.Wait.Show}, doc: "Whether a line shows the wait. The question comes all the same."},
			{name: "delaySecs", kind: secs(&c.Wait.Delay), doc: "After how long it does."},
			{name: "intervalMs", kind: ms(&c.Wait.Interval, 10*time.Millisecond), doc: "How often the line is drawn again."},
			{name: "timeoutSecs", kind: secs(&c.Wait.Timeout), doc: "After how long the person is asked what to do. Where nobody can be asked, a request that waits for what its provider reports is sent then."},
		}}, doc: "What a person at a terminal sees of a wait, of paceline run and the like: nothing here changes what is waited for."},
		{name: "log", kind: object{fields: []field{
			{name: "keepDays", kind: number(&c.Log.KeepDays, 1, 3660), doc: "How many days of requests are kept."},
			{name: "maxMB", kind: number(&c.Log.MaxMB, 1, 1000000), doc: "How large the log gets, in megabytes."},
		}}, doc: "The log of requests. What was asked and answered is never in it."},
		{name: "providers", kind: named[Provider]{"providers' names", providerName, provider,
			func(yield func(string, *Provider) bool) {
				for i := range c.Providers {
					if !yield(c.Providers[i].Name, &c.Providers[i]) {
						return
					}
				}
			},
			func(name string, p Provider) {
				p.Name = name
				c.Providers = append(c.Providers, p)
			}}, doc: "What is known of providers. Those that are built in need no entry; one with their name starts from what they have."},
		{name: "tiers", kind: byName(&c.Tiers, "tiers' names", clientName, func(p *[]string) kind {
			return list[string]{p: p, what: "PROVIDER/MODEL", of: func(s *string) kind {
				return text[string]{s, "PROVIDER/MODEL", tierTarget}
			}}
		}), later: "leave it out, and name the provider in the path",
			doc: "Names for chains of PROVIDER/MODEL."},
		{name: "fallback", kind: object{fields: []field{
			{name: "from", kind: text[string]{p: &c.Fallback.From, what: "the name of a provider"}, doc: "Whose refusals."},
			{name: "to", kind: text[string]{p: &c.Fallback.To, what: "the name of a provider"}, doc: "Who is asked instead."},
			{name: "models", kind: byName(&c.Fallback.Models, "models", anyName, func(s *string) kind {
				return text[string]{p: s, what: "the name of a model"}
			}), doc: "What models are called there."},
		}}, later: "leave it out: refusals are handed back",
			doc: "Sends to another provider what one refuses."},
	}}
}

func secs(p *time.Duration) span { return span{p: p, unit: time.Second, max: 24 * time.Hour} }

func upstream(u *Upstream) object {
	return object{fields: []field{
		{name: "proxy", kind: text[string]{&u.Proxy, "env, none or a URL such as http://proxy.example.com:3128", proxyURL},
			doc: "env: the proxy that HTTPS_PROXY and HTTP_PROXY name. none, or a URL."},
		{name: "caFile", kind: text[string]{p: &u.CAFile, what: "the path of a file"},
			doc: "A PEM file of certificates to trust beside the system's."},
	}}
}

func tokenFields(t *Token) kind {
	return object{fields: []field{
		{name: "name", kind: text[string]{&t.Name, "a name", clientName},
			doc: "Who comes with it."},
		{name: "value", kind: secret{&t.Value, tokenValue},
			doc: "The token: pcl_ and at least 16 letters or digits that nobody guesses."},
		{name: "priority", kind: oneOf(&t.Priority, "interactive", "normal", "background"),
			def: "what the request says", doc: "The priority of its requests."},
		{name: "providers", kind: list[string]{p: &t.Providers, what: "providers' names", of: func(s *string) kind {
			return text[string]{p: s, what: "the name of a provider"}
		}}, def: "all", doc: "The providers it may use."},
	}}
}

func client(c *Client) kind {
	return object{fields: []field{
		{name: "priority", kind: oneOf(&c.Priority, "interactive", "normal", "background"),
			def: "what the request says", doc: "The priority of its requests."},
		{name: "maxWaitMs", kind: ms(&c.MaxWait, time.Millisecond),
			def: "as long as it comes again", doc: "How long its requests wait at most."},
		{name: "maxConcurrent", kind: number(&c.MaxConcurrent, 1, 1000000),
			def: "no limit", doc: "How many of its requests are in flight at once, over all providers."},
		{name: "quota", kind: oneOf(&c.Quota, paceline.QuotaFail, paceline.QuotaWait),
			def: "the provider's", doc: "fail: the refusal of a spent quota is handed back. wait: its reset is waited for."},
	}}
}

func provider(p *Provider) kind {
	return object{fields: []field{
		{name: "baseURL", kind: text[string]{&p.BaseURL, "a URL such as https://api.example.com/v1", baseURL},
			def: "that of the built-in provider", doc: "Where requests go. What follows the provider's name in a request's path is appended."},
		{name: "dialect", kind: text[string]{&p.Dialect, "one of " + strings.Join(dialects(), ", "), dialectName},
			def: "as its name or host suggests", doc: "How the provider speaks of limits."},
		{name: "scope", kind: oneOf(&p.Scope, paceline.ScopeProvider, paceline.ScopeModel),
			def: "provider where a rate is declared or the provider tells of the account as a whole, else model", doc: "Whether its limits and refusals concern everything, or each model alone."},
		{name: "apiKey", kind: secret{&p.apiKey, apiKey},
			def: "the client's own goes through", doc: "The key of its requests."},
		{name: "credentials", kind: list[paceline.Credential]{p: &p.Credentials, what: "credentials", of: credential},
			doc: "Several keys. A request takes the one with the most left, and a conversation stays with its own."},
		{name: "limits", kind: limits(&p.Limits),
			doc: "What the provider allows."},
		{name: "retry", kind: object{fields: []field{
			{name: "max", kind: count[int]{p: &p.Retry.Max, max: 1000, none: true}, def: "6",
				doc: "How often a request is sent again after rate limits."},
			{name: "max5xx", kind: count[int]{p: &p.Retry.Max5xx, max: 1000, none: true}, def: "2",
				doc: "How often after server errors and lost connections."},
			{name: "baseMs", kind: ms(&p.Base, time.Millisecond), def: "2000",
				doc: "The first wait where the provider states none. It doubles up to a minute."},
			{name: "maxWaitMs", kind: msOrNone(&p.MaxWait), def: "600000",
				doc: "The longest rest of a pause that a request waits for. Beyond it the refusal is handed back."},
			{name: "overloadMs", kind: ms(&p.Overload, time.Millisecond), def: "120000",
				doc: "How long a request is tried while the provider says that it is full."},
			{name: "waitForCapacity", kind: truth{&p.WaitForCapacity},
				doc: "Wait for pauses without bound."},
		}}, doc: "How long and how often one request is tried."},
		{name: "quota", kind: oneOf(&p.Quota, paceline.QuotaFail, paceline.QuotaWait),
			def: "fail, and wait for background work", doc: "fail: the refusal of a spent quota is handed back. wait: its reset is waited for."},
		{name: "mode", kind: oneOf(&p.Mode, paceline.Enforce, paceline.Observe, paceline.Off),
			def: "the mode above", doc: "The mode of this provider."},
		{name: "timeouts", kind: object{fields: []field{
			{name: "connectMs", kind: msOrNone(&p.Connect), def: "10000", doc: "Getting a connection. 0: no bound."},
			{name: "headerMs", kind: msOrNone(&p.Header), def: "0", doc: "From sending to the head of the answer. 0: no bound, since a model may think for minutes."},
			{name: "idleMs", kind: msOrNone(&p.Idle), def: "300000", doc: "Between two pieces of the answer. 0: no bound."},
			{name: "totalMs", kind: msOrNone(&p.Total), def: "1800000", doc: "The whole of an attempt. 0: no bound."},
		}}, doc: "Bounds of one attempt."},
		{name: "streamHeartbeatMs", kind: ms(&p.StreamHeartbeat, 0), def: "0",
			doc: "Commits a 200 for a stream that waits, and sends it a comment this often. 0: not at all."},
		{name: "upstream", kind: upstream(&p.Upstream), doc: "How this provider is reached."},
		{name: "models", kind: byName(&p.Models, "models or patterns", modelName, func(l *paceline.Limits) kind {
			return object{fields: []field{{name: "limits", kind: rates(l), doc: "Limits beside those of the provider."}}}
		}), doc: "Limits of some models. A name is in lower case and may be a pattern such as gpt-*."},
	}}
}

func credential(c *paceline.Credential) kind {
	return object{fields: []field{
		{name: "name", kind: text[string]{&c.Name, "a name", clientName}, def: "the provider's, with a number",
			doc: "What the log and status call it."},
		{name: "apiKey", kind: secret{&c.Key, apiKey}, doc: "The key."},
		{name: "account", kind: text[string]{p: &c.Account, what: "a name"}, def: "each key is one",
			doc: "Whom the provider meters. Keys of one account share limits and pauses."},
		{name: "weight", kind: number(&c.Weight, 1, 1000), def: "1",
			doc: "How much of the work it gets beside keys with as much left, or of which nothing is known yet."},
	}}
}

// rates are the limits that a model may have of its own.
func rates(l *paceline.Limits) object {
	return object{fields: []field{
		{name: "maxPerSecond", alias: "rps", kind: number(&l.MaxPerSecond, 1, mostCalls), def: "no limit",
			doc: "Requests in any second."},
		{name: "maxPerMinute", alias: "rpm", kind: number(&l.MaxPerMinute, 1, mostCalls), def: "no limit",
			doc: "Requests in any minute."},
		{name: "maxPerHour", alias: "rph", kind: number(&l.MaxPerHour, 1, mostCalls), def: "no limit",
			doc: "Requests in any hour."},
		{name: "maxPerDay", alias: "rpd", kind: number(&l.MaxPerDay, 1, mostCalls), def: "no limit",
			doc: "Requests in any 24 hours."},
		{name: "maxConcurrent", kind: number(&l.MaxConcurrent, 1, mostCalls), def: "no limit",
			doc: "Requests in flight at once."},
		{name: "maxTokensPerMinute", alias: "tpm", kind: number(&l.MaxTokensPerMinute, 1, mostCalls), def: "no limit",
			doc: "Tokens in any minute, as the provider charges them: of prompts and answers together. A request that needs more than its window allows waits until the window is empty, and goes alone: the provider decides, and a refusal of it lowers no limit. What it needs is its prompt with the max_tokens it asks for where the provider reserves those (openai, azure, bedrock, cerebras); elsewhere it is estimated, and an estimate counts as no more than any request has cost so far."},
		{name: "maxTokensPerDay", alias: "tpd", kind: number(&l.MaxTokensPerDay, 1, mostCalls), def: "no limit",
			doc: "Tokens in any 24 hours. See maxTokensPerMinute."},
		{name: "maxInputTokensPerMinute", alias: "itpm", kind: number(&l.MaxInputTokensPerMinute, 1, mostCalls), def: "no limit",
			doc: "Tokens of prompts in any minute. See maxTokensPerMinute."},
		{name: "maxOutputTokensPerMinute", alias: "otpm", kind: number(&l.MaxOutputTokensPerMinute, 1, mostCalls), def: "no limit",
			doc: "Tokens of answers in any minute. See maxTokensPerMinute."},
		{name: "windows", kind: list[paceline.Window]{p: &l.Windows, what: "windows", of: window},
			doc: "Rolling windows of any other length."},
		{name: "pacing", kind: oneOf(&l.Pacing, paceline.Even, paceline.Burst), def: "even",
			doc: "even: one start at a time, evenly, so that no bucket is small enough to be emptied. burst: as fast as the windows allow."},
		{name: "safetyMargin", kind: fraction{p: &l.SafetyMargin, max: 0.9}, def: "0",
			doc: "The part of each rate that is left unused."},
	}}
}

func limits(l *paceline.Limits) object {
	o := rates(l)
	a := &l.Adaptive
	o.fields = append(o.fields,
		field{name: "windowSlackMs", kind: msOrNone(&l.WindowSlack), def: "1000; 0 for a server on this machine or network",
			doc: "What windows from ten seconds on are lengthened by, since requests take a varying time to arrive where they are counted."},
		field{name: "abortHoldMs", kind: msOrNone(&l.AbortHold), def: "15000; 0 for a server on this machine or network",
			doc: "How long a request that was cut after it was sent goes on taking its place, since the provider works on it still."},
		field{name: "adaptive", kind: object{off: &a.Off, fields: []field{
			{name: "decrease", kind: fraction{p: &a.Decrease, max: 1, over: true, under: true}, def: "0.7", doc: "What limits are multiplied by."},
			{name: "min", kind: fraction{p: &a.Min, max: 1, over: true}, def: "0.2", doc: "How little of them is left at least."},
			{name: "increase", kind: fraction{p: &a.Increase, max: 1, over: true}, def: "0.1", doc: "What part comes back."},
			{name: "cooldownMs", kind: ms(&a.Cooldown, time.Millisecond), def: "300000", doc: "After each such time without a refusal."},
			{name: "gapMs", kind: ms(&a.Gap, time.Millisecond), def: "5000", doc: "They are not lowered twice within it."},
		}}, doc: "How limits give way to refusals that they do not explain. false: not at all."})
	return o
}

func window(w *paceline.Window) kind {
	return object{fields: []field{
		{name: "calls", kind: number(&w.Calls, 1, mostCalls), doc: "How many requests, or tokens."},
		{name: "perMs", kind: ms(&w.Per, time.Millisecond), doc: "In any span of this length."},
		{name: "unit", kind: oneOf(&w.Unit, policy.Requests, policy.Tokens, policy.Input, policy.Output), def: "requests",
			doc: "What is counted: requests, tokens, or those of the input or the output alone."},
		{name: "slackMs", kind: msOrNone(&w.Slack), def: "windowSlackMs, at most 2 % of the window",
			doc: "What the window is lengthened by."},
	}}
}

// Checks of single values.

func address(p *string) kind {
	return text[string]{p, "HOST:PORT such as localhost:8790, or unix:PATH", func(s string) (string, string) {
		if path, ok := strings.CutPrefix(s, "unix:"); ok {
			switch {
			case path == "":
				return "names no socket", "write unix:PATH"
			case len(path) > 100:
				return "is too long for a socket", "write a path of at most 100 bytes"
			}
			return "", ""
		}
		if s == "" {
			return "is no address", "write HOST:PORT such as localhost:8790"
		}
		if port(s) {
			return "is a port alone", "write localhost:" + s
		}
		host, p, err := net.SplitHostPort(s)
		switch {
		case strings.Contains(s, "://"):
			return "is a URL", "write HOST:PORT such as localhost:8790"
		case err != nil && !strings.Contains(s, ":"):
			return "has no port", "write " + s + ":8790"
		case err != nil:
			return "is no address", "write HOST:PORT such as localhost:8790, [::1]:8790 for IPv6"
		case !port(p):
			return "has no port from 0 to 65535", "write HOST:PORT such as localhost:8790"
		case strings.ContainsAny(host, "/ \t"):
			return "is no address", "write HOST:PORT such as localhost:8790"
		}
		return "", ""
	}}
}

func port(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}

// loopback reports whether an address is reached from this machine alone.
func loopback(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "localhost" {
		return true // it is no address, which has been said
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

var hostForm = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)

func hostName(p *string) kind {
	return text[string]{p, "a host name", func(s string) (string, string) {
		if !hostForm.MatchString(s) {
			if _, err := netip.ParseAddr(s); err != nil {
				return "is no host name", "write the name alone, without a scheme or a port"
			}
		}
		return "", ""
	}}
}

func proxyURL(s string) (string, string) {
	if s == "env" || s == "none" {
		return "", ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
		return "is no proxy", "write env, none or a URL such as http://proxy.example.com:3128"
	}
	return "", ""
}

func baseURL(s string) (string, string) {
	const advice = "write a URL such as https://api.example.com/v1"
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "is no http or https URL", advice
	case u.User != nil:
		return "has a user or a password in it", "write them under apiKey"
	case u.RawQuery != "" || u.Fragment != "":
		return "has a query or a fragment", advice
	case strings.HasSuffix(u.Path, "/chat/completions") || strings.HasSuffix(u.Path, "/messages"):
		return "is that of one operation", "write what comes before it, such as " + advice[len("write a URL such as "):]
	}
	return "", ""
}

func dialects() []string {
	names := make([]string, len(dialect.All))
	for i, d := range dialect.All {
		names[i] = d.Name
	}
	return names
}

func dialectName(s string) (string, string) {
	if _, ok := dialect.ByName(s); !ok {
		return "is no dialect" + didYouMean(s, dialects()), "write one of " + strings.Join(dialects(), ", ")
	}
	return "", ""
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// reserved are beginnings of paths that the proxy has for itself, as it has
// versions.
var reserved = []string{"health", "healthz", "ready", "readyz", "stats", "metrics", "ui", "control", "as", "door"}

var versionForm = regexp.MustCompile(`^v[0-9]{1,3}([a-z]+[0-9]*)?$`)

func providerName(s string) (string, string) {
	switch {
	case slices.Contains(reserved, strings.ToLower(s)) || versionForm.MatchString(strings.ToLower(s)):
		return "is a path that the proxy has for itself", "write another name than v1 and the like, " + strings.Join(reserved, ", ")
	case !nameForm.MatchString(s):
		return "is no name for a URL", "write letters, digits, -, _ and ., at most 64, the first a letter or a digit"
	}
	return "", ""
}

func clientName(s string) (string, string) {
	if !nameForm.MatchString(s) {
		return "is no name for a URL", "write letters, digits, -, _ and ., at most 64, the first a letter or a digit"
	}
	return "", ""
}

func anyName(s string) (string, string) {
	if s == "" {
		return "is empty", "write a name"
	}
	return "", ""
}

func modelName(s string) (string, string) {
	if s == "" {
		return "is empty", "write the name of a model or a pattern such as gpt-*"
	}
	if _, err := path.Match(s, ""); err != nil {
		return "is no pattern", "write * for any letters, ? for one, [ab] for one of some, and close the [ ]"
	}
	if s != strings.ToLower(s) {
		return "has capitals", "write " + strings.ToLower(s) + ": models are compared in lower case"
	}
	return "", ""
}

func tierTarget(s string) (string, string) {
	if name, model, ok := strings.Cut(s, "/"); !ok || name == "" || model == "" {
		return "is no PROVIDER/MODEL", "write such as groq/llama"
	}
	return "", ""
}

const tokenPrefix = "pcl_"

var tokenForm = regexp.MustCompile(`^pcl_[A-Za-z0-9._~-]*$`)

func tokenValue(s string) (string, string) {
	const advice = "write file:PATH, and into the file pcl_ and at least 16 letters or digits that nobody guesses"
	switch {
	case !strings.HasPrefix(s, tokenPrefix):
		return "does not begin with " + tokenPrefix, advice
	case !tokenForm.MatchString(s):
		return "has signs that do not go through a URL", advice
	case len(s) < len(tokenPrefix)+16:
		return fmt.Sprintf("is short enough to be guessed, with %d letters", len(s)-len(tokenPrefix)), advice
	case len(s) > 512:
		return "is too long", advice
	}
	return "", ""
}

func apiKey(s string) (string, string) {
	if strings.HasPrefix(s, tokenPrefix) {
		return "is a token of paceline, not a key", "write the key that the provider gave out"
	}
	return "", ""
}
