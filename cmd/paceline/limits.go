package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/paceline-proxy/paceline"
	"github.com/paceline-proxy/paceline/dialect"
	"github.com/paceline-proxy/paceline/internal/config"
)

func newLimits() *cobra.Command {
	var asJSON, asYAML bool
	c := &cobra.Command{
		Use:   "limits [PROVIDER]",
		Short: "Print the limits that are declared, told and learned",
		Long: `Print the limits of each line of requests of the running proxy: those of the
configuration, those that the provider tells, and those learned from its
refusals. With --yaml they are entries for the configuration, as it would have
them. To paste them: where your file has no line providers:, all of it; where it
has none of the entry, the entry below that line; where it has the entry, replace
the limits: in it, or of a model below models:, and keep its other lines (keys are
not printed). What is told or learned there is what it is now, and may change;
paceline check says what is wrong with the file then.`,
		Example: `  paceline limits
  paceline limits groq --yaml
  paceline limits --json | jq .`,
		Args:              atMost(1, "one provider"),
		ValidArgsFunction: completeProviders,
		RunE: func(c *cobra.Command, args []string) error {
			if asJSON && asYAML {
				return usagef("--json and --yaml are two ways to print one thing: give one of them")
			}
			s, err := askStatus(c.Context())
			if err != nil {
				return err
			}
			all := limitsOf(s)
			if len(args) > 0 {
				all = slices.DeleteFunc(all, func(l callerLimits) bool { return l.Provider != args[0] })
				if len(all) == 0 {
					return fmt.Errorf("nothing of %q was sent lately: there is nothing to tell of its limits but what paceline config show %s says", args[0], args[0])
				}
			}
			switch {
			case asJSON:
				return json.NewEncoder(c.OutOrStdout()).Encode(all)
			case asYAML:
				return printYAML(c.OutOrStdout(), all)
			}
			return printLimits(c.OutOrStdout(), all, time.Now())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	c.Flags().BoolVar(&asYAML, "yaml", false, "print them as an entry of the configuration")
	return c
}

// callerLimits are those of one line, by where they come from.
type callerLimits struct {
	Provider   string                  `json:"provider"`
	Credential string                  `json:"credential,omitempty"`
	Account    string                  `json:"account,omitempty"`
	Scope      string                  `json:"scope,omitempty"`
	Mode       string                  `json:"mode,omitempty"` // where it is not that of all
	Declared   paceline.LimitsStatus   `json:"declared"`
	Told       []paceline.BucketStatus `json:"told"`
	Budgets    paceline.Budgets        `json:"budgets,omitempty"` // what is done about Told; absent where it is heeded
	Learned    learnedLimits           `json:"learned"`

	name, baseURL, dialect string
}

// learnedLimits are what refusals taught.
type learnedLimits struct {
	Factor     float64 `json:"factor,omitempty"` // of the declared rates
	SpacingMs  float64 `json:"spacing_ms,omitempty"`
	Concurrent int     `json:"concurrent,omitempty"`
}

func limitsOf(s status) []callerLimits {
	all := make([]callerLimits, len(s.Callers))
	for i, c := range s.Callers {
		l := callerLimits{
			Provider: c.Provider, Credential: c.Credential, Account: c.Account, Scope: c.Scope,
			Declared: c.Limits, Told: append([]paceline.BucketStatus{}, c.Buckets...), Mode: s.Modes[c.Provider], Budgets: c.Budgets,
			name: s.nameOf(c), baseURL: c.BaseURL, dialect: c.Dialect,
		}
		e := c.Effective
		if e.Factor > 0 && e.Factor < 1 {
			l.Learned.Factor = e.Factor
		}
		if !declaresRate(c.Limits) { // else it is the pacing
			l.Learned.SpacingMs = e.SpacingMs
		}
		if e.Concurrent > 0 && (c.Limits.Concurrent == 0 || e.Concurrent < c.Limits.Concurrent && l.Learned.Factor == 0) {
			l.Learned.Concurrent = e.Concurrent
		}
		all[i] = l
	}
	return all
}

func declaresRate(l paceline.LimitsStatus) bool {
	return l.PerSecond > 0 || l.PerMinute > 0 || l.PerHour > 0 || l.PerDay > 0 || l.Pacing != ""
}

func printLimits(w io.Writer, all []callerLimits, now time.Time) error {
	var b strings.Builder
	if len(all) == 0 {
		b.WriteString("nothing was sent lately: there is nothing to tell of limits but what paceline config show says\n")
	}
	for i, l := range all {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n", l.name)
		row := func(source, says string) { fmt.Fprintf(&b, "  %-8s  %s\n", source, clean(says)) }
		if says := describeDeclared(l.Declared); says != "" {
			row("declared", says)
		}
		for _, t := range l.Told {
			row("told", describeTold(t, now)+unheeded[l.Budgets])
		}
		if says := l.Learned.describe(); says != "" {
			row("learned", says)
		}
		if len(l.Told) == 0 && describeDeclared(l.Declared) == "" && l.Learned.describe() == "" {
			row("none", "it is sent as it comes until the provider refuses")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func describeDeclared(l paceline.LimitsStatus) string {
	var windows []paceline.Window
	for _, w := range l.Windows {
		windows = append(windows, paceline.Window{Calls: w.Calls, Per: time.Duration(w.PerMs) * time.Millisecond, Unit: w.Unit})
	}
	return config.Describe(paceline.Limits{
		Windows:      windows,
		MaxPerSecond: l.PerSecond, MaxPerMinute: l.PerMinute, MaxPerHour: l.PerHour, MaxPerDay: l.PerDay,
		MaxTokensPerMinute: l.TokensPerMinute, MaxTokensPerDay: l.TokensPerDay,
		MaxInputTokensPerMinute: l.InputTokensPerMinute, MaxOutputTokensPerMinute: l.OutputTokensPerMinute,
		MaxConcurrent: l.Concurrent, Pacing: paceline.Pacing(l.Pacing), SafetyMargin: l.SafetyMargin,
	})
}

// unheeded is said of what is told where it is not kept to.
var unheeded = map[paceline.Budgets]string{
	paceline.LogBudgets:    "; nobody waits for it (budget.logOnly)",
	paceline.IgnoreBudgets: "; from before it was ignored (budget.enable: false)",
}

func describeTold(t paceline.BucketStatus, now time.Time) string {
	says := strings.ReplaceAll(t.Unit, "_", " ")
	if t.Window != "" {
		says += " a " + t.Window
	}
	if t.Scope != "" {
		says += " of " + t.Scope
	}
	var parts []string
	if t.Limit != nil {
		parts = append(parts, fmt.Sprintf("%d", *t.Limit))
	}
	if t.Remaining != nil {
		parts = append(parts, fmt.Sprintf("%d left", *t.Remaining))
	}
	if t.Projected != nil && (t.Remaining == nil || *t.Projected != *t.Remaining) {
		parts = append(parts, fmt.Sprintf("%d by now", *t.Projected))
	}
	if t.Floor != nil && *t.Floor > 1 {
		parts = append(parts, fmt.Sprintf("%d kept for others", *t.Floor))
	}
	if t.ResetAt.After(now) {
		parts = append(parts, fmt.Sprintf("full again in %v", t.ResetAt.Sub(now).Round(time.Second)))
	}
	return says + ": " + strings.Join(parts, ", ")
}

func (l learnedLimits) describe() string {
	var parts []string
	if l.SpacingMs > 0 {
		parts = append(parts, fmt.Sprintf("a start every %v", time.Duration(l.SpacingMs*float64(time.Millisecond)).Round(time.Millisecond)))
	}
	if l.Concurrent > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", l.Concurrent))
	}
	if l.Factor > 0 {
		parts = append(parts, fmt.Sprintf("%.3g of the declared rates", l.Factor))
	}
	return strings.Join(parts, ", ")
}

// A setting is one line of limits, and where it comes from.
type setting struct {
	key, source string
	value       int
}

// toldKeys are the keys for what is told, by its unit and window.
var toldKeys = map[[2]string]string{
	{dialect.Requests, dialect.Second}:     "maxPerSecond",
	{dialect.Requests, dialect.Minute}:     "maxPerMinute",
	{dialect.Requests, dialect.Hour}:       "maxPerHour",
	{dialect.Requests, dialect.Day}:        "maxPerDay",
	{dialect.Tokens, dialect.Minute}:       "maxTokensPerMinute",
	{dialect.Tokens, dialect.Day}:          "maxTokensPerDay",
	{dialect.InputTokens, dialect.Minute}:  "maxInputTokensPerMinute",
	{dialect.OutputTokens, dialect.Minute}: "maxOutputTokensPerMinute",
}

// settings are what the configuration would say of a line.
func (l callerLimits) settings() []setting {
	var out []setting
	add := func(key, source string, value int) {
		if value <= 0 || value > 1<<40 {
			return
		}
		i := slices.IndexFunc(out, func(s setting) bool { return s.key == key })
		if i < 0 {
			out = append(out, setting{key, source, value})
		} else if value < out[i].value {
			out[i] = setting{key, source, value}
		}
	}
	d := l.Declared
	add("maxPerSecond", "declared", d.PerSecond)
	add("maxPerMinute", "declared", d.PerMinute)
	add("maxPerHour", "declared", d.PerHour)
	add("maxPerDay", "declared", d.PerDay)
	add("maxConcurrent", "declared", d.Concurrent)
	add("maxTokensPerMinute", "declared", d.TokensPerMinute)
	add("maxTokensPerDay", "declared", d.TokensPerDay)
	add("maxInputTokensPerMinute", "declared", d.InputTokensPerMinute)
	add("maxOutputTokensPerMinute", "declared", d.OutputTokensPerMinute)
	told := false
	for _, t := range l.Told {
		if key := toldKeys[[2]string{t.Unit, t.Window}]; key != "" && t.Limit != nil && t.Scope == "" {
			add(key, "told", int(min(*t.Limit, math.MaxInt32)))
			told = told || t.Unit == dialect.Requests
		}
	}
	if ms := l.Learned.SpacingMs; ms > 0 && !told {
		if perMinute := 60000 / ms; perMinute >= 1 {
			add("maxPerMinute", "learned", int(perMinute))
		} else {
			add("maxPerHour", "learned", int(60*perMinute))
		}
	}
	add("maxConcurrent", "learned", l.Learned.Concurrent)
	return out
}

// printYAML prints entries of providers. Where keys of one provider or model
// differ, the smallest limits stand.
func printYAML(w io.Writer, all []callerLimits) error {
	type limits map[string]setting
	type place struct{ provider, scope string }
	windows := make(map[place][]paceline.WindowStatus)
	of := make(map[string]callerLimits)
	entries := make(map[string]map[string]limits) // by provider and scope
	for _, l := range all {
		if strings.HasPrefix(l.Scope, "~") {
			continue // what asks for no inference
		}
		settings := l.settings()
		if len(settings) == 0 && len(l.Declared.Windows) == 0 {
			continue
		}
		of[l.Provider], windows[place{l.Provider, l.Scope}] = l, l.Declared.Windows // which all of its lines have
		if entries[l.Provider] == nil {
			entries[l.Provider] = make(map[string]limits)
		}
		if entries[l.Provider][l.Scope] == nil {
			entries[l.Provider][l.Scope] = make(limits)
		}
		for _, s := range settings {
			if old, ok := entries[l.Provider][l.Scope][s.key]; !ok || s.value < old.value {
				entries[l.Provider][l.Scope][s.key] = s
			}
		}
	}
	var b strings.Builder
	if len(entries) == 0 {
		b.WriteString("# no limits are known yet\n")
	} else {
		b.WriteString("providers:\n")
	}
	key := func(s string) string {
		quoted, err := yaml.Marshal(s)
		if err != nil {
			return `""`
		}
		return strings.TrimSpace(string(quoted))
	}
	write := func(indent string, ls limits, ws []paceline.WindowStatus) {
		fmt.Fprintf(&b, "%slimits:\n", indent)
		for _, name := range sortedKeys(ls) {
			fmt.Fprintf(&b, "%s  %s: %d  # %s\n", indent, name, ls[name].value, ls[name].source)
		}
		if len(ws) > 0 {
			fmt.Fprintf(&b, "%s  windows:  # declared\n", indent)
		}
		for _, w := range ws {
			fmt.Fprintf(&b, "%s    - {calls: %d, perMs: %d", indent, w.Calls, w.PerMs)
			if w.Unit != "" {
				fmt.Fprintf(&b, ", unit: %s", w.Unit)
			}
			if w.SlackMs != 0 {
				fmt.Fprintf(&b, ", slackMs: %d", max(0, w.SlackMs))
			}
			b.WriteString("}\n")
		}
	}
	builtIn := paceline.BuiltIn()
	for _, provider := range sortedKeys(entries) {
		fmt.Fprintf(&b, "  %s:\n", key(provider))
		if l := of[provider]; l.baseURL != "" && !slices.ContainsFunc(builtIn, func(p paceline.Provider) bool { return p.Name == provider }) {
			fmt.Fprintf(&b, "    baseURL: %s\n", key(l.baseURL))
			if l.dialect != "" {
				fmt.Fprintf(&b, "    dialect: %s\n", key(l.dialect))
			}
		}
		scopes := entries[provider]
		if ls := scopes[""]; ls != nil {
			write("    ", ls, windows[place{provider, ""}])
		}
		models := slices.DeleteFunc(sortedKeys(scopes), func(s string) bool { return s == "" })
		if len(models) > 0 {
			b.WriteString("    models:\n")
		}
		for _, model := range models {
			fmt.Fprintf(&b, "      %s:\n", key(model))
			write("        ", scopes[model], windows[place{provider, model}])
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
