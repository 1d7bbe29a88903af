package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline/budget/file"
	"github.com/paceline-proxy/paceline/internal/config"
	"github.com/paceline-proxy/paceline/internal/daemon"
	"github.com/paceline-proxy/paceline/internal/history"
	"github.com/paceline-proxy/paceline/internal/home"
	"github.com/paceline-proxy/paceline/internal/slot/address"
	"github.com/paceline-proxy/paceline/limiter"
)

// A finding is what one check found.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warning or fault
	Says   string `json:"says"`
	Do     string `json:"do,omitempty"`
}

func newDoctor() *cobra.Command {
	var asJSON bool
	var file string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong, and say what to do",
		Long: `Check the home, the configuration, the proxy, the environment of this shell and
the log of the last day, and say of everything that is wrong what to do. A limiter
that hosts share is opened once, which makes its file or its schema where there is
none yet, as the home is made. Nothing else is changed, and no provider is asked.

The exit code is 1 if anything is a fault; warnings alone are no failure.`,
		Example: `  paceline doctor
  paceline doctor --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all := examine(c.Context(), file)
			if err := printFindings(c, all, asJSON); err != nil {
				return err
			}
			for _, f := range all {
				if f.Status == "fault" {
					return coded{code: exitFailed}
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	c.Flags().StringVar(&file, "config", "", "check the configuration in `FILE`")
	return c
}

func printFindings(c *cobra.Command, all []finding, asJSON bool) error {
	for _, f := range all {
		var err error
		if asJSON {
			err = json.NewEncoder(c.OutOrStdout()).Encode(f)
		} else {
			_, err = fmt.Fprintf(c.OutOrStdout(), "%-8s %-13s %s\n", f.Status, f.Check, f.Says)
			if f.Do != "" && err == nil {
				_, err = fmt.Fprintf(c.OutOrStdout(), "%-22s %s\n", "", f.Do)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// examine makes all checks.
func examine(ctx context.Context, file string) (all []finding) {
	add := func(fs ...finding) { all = append(all, fs...) }
	h, err := home.Find()
	if err != nil {
		return []finding{{"home", "fault", err.Error(), ""}}
	}
	add(checkHome(h), checkDisk(h))
	add(checkStore(h)...)
	add(checkConfig(ctx, h, file)...)
	proxy, base := checkProxy(ctx, h)
	add(proxy...)
	running := limiterOfProxy(ctx, h)
	add(checkLimiterInUse(running)...)
	add(checkOthers(ctx, h, running)...)
	add(checkVariables(os.Getenv, base)...)
	add(checkLog(ctx, h, time.Now())...)
	return all
}

func checkHome(h home.Home) finding {
	if err := h.Make(); err != nil {
		return finding{"home", "fault", err.Error(), ""}
	}
	_, err := h.ReadToken()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return finding{"home", "fault", err.Error(), ""}
	}
	return finding{"home", "ok", h.Dir, ""}
}

// little is the space below which logs and journals soon fail.
const little = 100 << 20

func checkDisk(h home.Home) finding {
	free, err := freeSpace(h.Dir)
	switch {
	case err != nil:
		return finding{"disk", "warning", "its free space is not known: " + err.Error(), ""}
	case free < little:
		return finding{"disk", "warning", fmt.Sprintf("%d MB are free where the home is", free>>20), "make room: requests go on without it, the log and a restart's memory do not"}
	}
	return finding{"disk", "ok", fmt.Sprintf("%d MB are free", free>>20), ""}
}

// checkStore looks at what is kept of what providers tell.
func checkStore(h home.Home) (all []finding) {
	dir := h.RateLimits()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, err := file.Open(dir)
	if err != nil {
		return []finding{{"rate limits", "fault", err.Error(), "requests are sent all the same, but a restart does not know what providers told: let the proxy's user write there"}}
	}
	for _, err := range s.Faults() {
		do := "requests are sent all the same; what was told is lost to a restart and to other processes: remove the file, or let its user read and write it"
		if errors.Is(err, file.ErrNewer) {
			do = "use the newer paceline that wrote it, or remove the file"
		}
		all = append(all, finding{"rate limits", "warning", err.Error(), do})
	}
	return all
}

func checkConfig(ctx context.Context, h home.Home, file string) []finding {
	f, err := findConfig(ctx, file)
	if err != nil {
		return []finding{{"config", "fault", err.Error(), ""}}
	}
	c, err := config.Load(f.path)
	if err != nil {
		var all []finding
		for line := range strings.Lines(err.Error()) {
			all = append(all, finding{"config", "fault", strings.TrimSpace(line), ""})
		}
		return all
	}
	all := []finding{{"config", "ok", f.String(), ""}}
	for _, w := range c.Warnings {
		all = append(all, finding{"config", "warning", w.Error(), ""})
	}
	return append(all, checkLimiter(ctx, c, h)...)
}

// limiterWithin is how long a limiter has for being opened, and a proxy for
// saying how it stands with its own.
const limiterWithin = 5 * time.Second

// checkLimiter opens the limiter that hosts share, if there is one.
func checkLimiter(ctx context.Context, c *config.Config, h home.Home) (all []finding) {
	if c.Limiter.URL == "memory" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limiterWithin)
	defer cancel()
	at := address.Redacted(c.Limiter.URL)
	l, err := daemon.OpenLimiter(ctx, c, h)
	if err == nil {
		_, err = l.Acquire(ctx, limiter.Request{Key: "~doctor"}) // of no limits: nothing is counted
	}
	if err != nil {
		all = append(all, finding{"limiter", "fault", fmt.Sprintf("%s cannot be used: %v", at, err),
			"start or mend it, or correct limiter.url; meanwhile limiter.onFailure holds: " + c.Limiter.OnFailure})
	} else {
		all = append(all, finding{"limiter", "ok", at + " can be used", ""})
	}
	if w, ok := l.(interface{ Warnings() []string }); ok {
		for _, says := range w.Warnings() {
			all = append(all, finding{"limiter", "warning", says, ""})
		}
	}
	if closer, ok := l.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			all = append(all, finding{"limiter", "warning", "it was not closed as it should be: " + err.Error(), ""})
		}
	}
	return all
}

// limiterOfProxy is how it stands with the limiter of a home's proxy, zero where
// none runs or it does not say.
func limiterOfProxy(ctx context.Context, h home.Home) daemon.LimiterStatus {
	ctx, cancel := context.WithTimeout(ctx, limiterWithin)
	defer cancel()
	s, live := h.Live(ctx)
	if !live {
		return daemon.LimiterStatus{}
	}
	var says status
	if err := h.ClientOf(s).Status(ctx, &says); err != nil {
		return daemon.LimiterStatus{}
	}
	return says.Limiter
}

// checkLimiterInUse reports what the proxy says of the limiter it shares: that
// it can be opened from here does not mean that the proxy reaches it.
func checkLimiterInUse(l daemon.LimiterStatus) []finding {
	switch {
	case l.URL == "" || l.URL == "memory":
		return nil
	case l.State == "ok":
		return []finding{{"limiter", "ok", "the proxy reaches " + clean(l.URL), ""}}
	}
	return []finding{{"limiter", "fault", fmt.Sprintf("the proxy does not reach %s: %s", clean(l.URL), clean(strings.Join(l.Warnings, " "))),
		"mend it, or correct limiter in the configuration and paceline restart; meanwhile limiter.onFailure holds: " + clean(l.OnFailure)}}
}

// sameLimiter reports whether two proxies of this machine surely count in one
// place: a path that is not absolute, a module and what is hidden may differ.
func sameLimiter(a, b daemon.LimiterStatus) bool {
	if a.URL != b.URL || strings.Contains(a.URL, "(hidden)") {
		return false
	}
	switch address.Scheme(a.URL) {
	case "", "memory", "module":
		return false
	case "sqlite", "unix":
		return filepath.IsAbs(address.Rest(a.URL))
	}
	return true
}

// checkProxy finds the proxy, and the URL by which clients should reach it.
func checkProxy(ctx context.Context, h home.Home) (all []finding, base string) {
	c := h.Client()
	at, err := c.Endpoint()
	if err != nil {
		return []finding{{"proxy", "fault", err.Error(), ""}}, ""
	}
	var health struct {
		Version string `json:"version"`
	}
	if err := c.Call(ctx, http.MethodGet, "/health", nil, &health); err != nil {
		do := ""
		if !at.Recorded() {
			do = "unset " + at.From + " to use the home's own proxy"
		}
		return []finding{{"proxy", "fault", err.Error(), do}}, at.URL
	}
	all = append(all, finding{"proxy", "ok", "it answers at " + at.URL, ""})
	if v := thisBuild().Version; health.Version != "" && health.Version != v {
		all = append(all, finding{"version", "warning", fmt.Sprintf("the proxy is %s, this command %s", health.Version, v), "paceline restart"})
	}
	if err := c.Call(ctx, http.MethodGet, "/ready", nil, nil); err != nil {
		all = append(all, finding{"proxy", "warning", "it is stopping: " + err.Error(), "paceline serve"})
	}
	if err := c.Status(ctx, nil); err != nil {
		all = append(all, finding{"token", "fault", err.Error(), "paceline restart, if the token was changed"})
	}
	if s, live := h.Live(ctx); live && !at.Recorded() && !sameHost(at.URL, s.URL()) {
		all = append(all, finding{"two proxies", "fault",
			fmt.Sprintf("%s names %s, and this home's proxy is at %s: each spends the whole limit", at.From, at.URL, s.URL()), "unset " + at.From + ", or paceline stop"})
	}
	return all, at.URL
}

// checkOthers finds proxies of other homes that do not share the limiter of this
// one's.
func checkOthers(ctx context.Context, h home.Home, running daemon.LimiterStatus) []finding {
	own, _ := h.Recorded()
	var all []finding
	for _, r := range proxies() {
		if r.pid == own.PID {
			continue
		}
		if r.home != "" && sameLimiter(running, limiterOfProxy(ctx, home.Home{Dir: r.home})) {
			continue
		}
		end := "one of them"
		if r.home != "" {
			end = "it with PACELINE_HOME=" + r.home + " paceline stop"
		}
		all = append(all, finding{"two proxies", "warning", fmt.Sprintf("%v is another paceline serve", r),
			"if both send with one key, each spends its whole limit: end " + end + ", declare a part of the limit in the configuration of each, or have both share one limiter (limiter.url)"})
	}
	return all
}

// checkVariables finds what keeps the requests of this shell's programs from
// coming to the proxy.
func checkVariables(getenv func(string) string, base string) (all []finding) {
	add := func(status, says, do string) { all = append(all, finding{"environment", status, says, do}) }
	for _, v := range everywhere {
		value := getenv(v.Name)
		if value == "" {
			continue
		}
		u, err := url.Parse(value)
		switch {
		case err != nil || u.Host == "":
			add("fault", fmt.Sprintf("%s is %q, which is no URL", v.Name, value), "unset it")
		case base != "" && !sameHost(value, base):
			add("warning", fmt.Sprintf("%s is %s: its requests do not come to the proxy", v.Name, value), "unset it, or set it to "+strings.ReplaceAll(v.Value, "{base}", base))
		case strings.Contains(u.Path, "/v1/v1"):
			add("warning", fmt.Sprintf("%s is %s: /v1 is doubled", v.Name, value), "leave one out")
		case strings.HasPrefix(v.Name, "ANTHROPIC_") && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1"):
			add("warning", fmt.Sprintf("%s is %s: its clients add /v1 themselves", v.Name, value), "leave /v1 out")
		case strings.HasPrefix(v.Name, "OPENAI_") && !strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1"):
			add("warning", fmt.Sprintf("%s is %s: its clients expect /v1 at its end", v.Name, value), "add /v1")
		}
	}
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		direct := cmp.Or(getenv("NO_PROXY"), getenv("no_proxy"))
		if getenv(name) != "" && withLoopback(direct) != direct {
			add("warning", name+" is set and NO_PROXY leaves the loopback out: some clients send through that proxy what is meant for this one",
				"export NO_PROXY="+withLoopback(direct))
			break
		}
	}
	if len(all) == 0 {
		add("ok", "nothing keeps requests away", "")
	}
	return all
}

// sameHost reports whether two URLs reach one port, under whatever name of the
// loopback.
func sameHost(a, b string) bool {
	key := func(s string) string {
		u, err := url.Parse(s)
		if err != nil {
			return s
		}
		switch host := u.Hostname(); host {
		case "127.0.0.1", "::1", "localhost":
			return "loopback:" + u.Port()
		default:
			return host + ":" + u.Port()
		}
	}
	return key(a) == key(b)
}

// checkLog finds refused keys, wrong paths, a clock that was set back and
// silence.
func checkLog(ctx context.Context, h home.Home, now time.Time) (all []finding) {
	r, err := history.OpenReader(h.Log())
	if errors.Is(err, fs.ErrNotExist) {
		return []finding{{"requests", "warning", "none has come through yet", `paceline exec -- CMD, or eval "$(paceline env)"`}}
	}
	if err != nil {
		return []finding{{"log", "fault", err.Error(), "move " + h.Log() + " away: paceline begins a new one"}}
	}
	defer r.Close()
	// What a provider has answered since it last worked for a credential.
	type key struct {
		provider, credential string
		status               int
	}
	failing := make(map[key]int)
	var last time.Time
	sent, unsent := 0, 0
	for rec, err := range r.Records(ctx, history.Query{Since: now.Add(-24 * time.Hour)}) {
		if err != nil {
			return append(all, finding{"log", "fault", err.Error(), "move " + h.Log() + " away: paceline begins a new one"})
		}
		if rec.NotSent || rec.Cache {
			unsent++
		} else {
			sent++
		}
		if rec.OK() {
			for _, status := range []int{http.StatusUnauthorized, http.StatusNotFound} {
				delete(failing, key{rec.Provider, rec.Credential, status})
			}
		} else {
			failing[key{rec.Provider, rec.Credential, rec.Status}]++
		}
		if rec.Done.After(last) {
			last = rec.Done
		}
	}
	byName := func(a, b key) int {
		return cmp.Or(strings.Compare(a.provider, b.provider), strings.Compare(a.credential, b.credential), a.status-b.status)
	}
	for _, k := range slices.SortedFunc(maps.Keys(failing), byName) {
		times := counted(failing[k], "time") + " since it last worked"
		switch k.status {
		case http.StatusUnauthorized:
			all = append(all, finding{"key", "fault", fmt.Sprintf("%s refuses the key %s (401, %s)", k.provider, cmp.Or(k.credential, "of the client"), times), "give the client, or apiKey in the configuration, a valid one"})
		case http.StatusNotFound:
			all = append(all, finding{"path", "fault", fmt.Sprintf("%s does not have what is asked for (404, %s)", k.provider, times), "paceline check says where paths go: is its baseURL right, the client's base URL, and the model?"})
		}
	}
	if last.After(now.Add(time.Minute)) {
		all = append(all, finding{"clock", "warning", fmt.Sprintf("the log has a request at %s, which is to come: the clock was set back", last.Format(time.RFC3339)), "set the clock; windows count by the machine's running time and stay right"})
	}
	if sent+unsent == 0 {
		return append(all, finding{"requests", "warning", "none came through in the last 24 hours", `paceline exec -- CMD, or eval "$(paceline env)"; paceline exec --explain CMD says what a command reads`})
	}
	says := counted(sent, "attempt") + " sent in the last 24 hours"
	if unsent > 0 {
		says += fmt.Sprintf(", %s answered without sending any", counted(unsent, "request"))
	}
	return append(all, finding{"requests", "ok", fmt.Sprintf("%s; the last one %v ago", says, max(0, now.Sub(last)).Round(time.Second)), ""})
}
