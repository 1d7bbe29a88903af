package main

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paceline-proxy/paceline/internal/proxy"
)

// A variable of the environment. In its value {base} is the proxy's URL with
// what it says of the caller.
type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// everywhere are set for every command. OpenAI's clients want the version in
// the base URL, the others append it.
var everywhere = []variable{
	{"OPENAI_BASE_URL", "{base}/v1"},
	{"OPENAI_API_BASE", "{base}/v1"},
	{"ANTHROPIC_BASE_URL", "{base}"},
	{"ANTHROPIC_API_BASE", "{base}"},
	{"GOOGLE_GEMINI_BASE_URL", "{base}/gemini"},
	{"GROQ_BASE_URL", "{base}/groq"},
	{"OPENROUTER_BASE_URL", "{base}/openrouter/v1"},
}

// A tool is a command that needs more than the variables of everywhere.
type tool struct {
	Name string     `json:"name"`
	Set  []variable `json:"set,omitempty"`
	// Args go before the arguments of the command.
	Args []string `json:"args,omitempty"`
	// Note says what else there is to know, or why none of its requests come.
	Note string `json:"note,omitempty"`
}

var tools = []tool{
	{
		Name: "claude",
		Set: []variable{
			// Behind another host than its own it turns these off by itself.
			{"ENABLE_TOOL_SEARCH", "true"},
			{"CLAUDE_CODE_GATEWAY_HINT_HEADERS", "1"},
		},
	},
	{
		Name: "codex",
		Args: []string{"-c", `openai_base_url="{base}/v1"`},
		Note: "it ignores OPENAI_BASE_URL and is told by -c; a ChatGPT login goes to another host",
	},
	{
		Name: "goose",
		Set:  []variable{{"OPENAI_HOST", "{base}"}, {"ANTHROPIC_HOST", "{base}"}},
	},
	{
		Name: "lm_eval",
		Note: "it has its URL in code: give --model_args base_url={base}/v1/chat/completions",
	},
	{
		Name: "lm-eval",
		Note: "it has its URL in code: give --model_args base_url={base}/v1/chat/completions",
	},
}

// toolOf is what is known of a command, by the name of its file.
func toolOf(command string) tool {
	name := strings.TrimSuffix(filepath.Base(command), ".exe")
	if i := slices.IndexFunc(tools, func(t tool) bool { return t.Name == name }); i >= 0 {
		return tools[i]
	}
	return tool{Name: name}
}

// A caller is who a base URL says the requests come from.
type caller struct{ name, priority, mark, token string }

// base appends to the proxy's URL what it is to say.
func (c caller) base(at string) string {
	if c.token != "" {
		at += "/~" + c.token
	}
	return at + proxy.As(c.name, [2]string{"priority", c.priority}, [2]string{"purpose", c.mark})
}

// A plan is how a command is run: what is set, what of it the user had set
// already and keeps, and what goes before its arguments.
type plan struct {
	Set  []variable `json:"set"`
	Kept []variable `json:"kept,omitempty"`
	Args []string   `json:"args,omitempty"`
	Note string     `json:"note,omitempty"`
}

// envMarker names the variable with the base URL that the others were set
// from, so that they are known later for ours, and not for the user's own.
const envMarker = "PACELINE_ENV"

// planFor says how a tool is run with a base URL in an environment.
func planFor(t tool, base string, getenv func(string) string) plan {
	fill := func(s string) string { return strings.ReplaceAll(s, "{base}", base) }
	p := plan{Note: fill(t.Note), Set: []variable{{envMarker, base}}}
	before := getenv(envMarker)
	for _, v := range slices.Concat(everywhere, t.Set) {
		ours := strings.ReplaceAll(v.Value, "{base}", before)
		v.Value = fill(v.Value)
		if own := getenv(v.Name); own != "" && own != v.Value && (before == "" || own != ours) {
			p.Kept = append(p.Kept, variable{v.Name, own})
		} else {
			p.Set = append(p.Set, v)
		}
	}
	direct := withLoopback(cmp.Or(getenv("NO_PROXY"), getenv("no_proxy")))
	p.Set = append(p.Set, variable{"NO_PROXY", direct}, variable{"no_proxy", direct})
	for _, a := range t.Args {
		p.Args = append(p.Args, fill(a))
	}
	return p
}

// withLoopback adds the loopback hosts to a value of NO_PROXY: some clients
// send them through a company's proxy otherwise.
func withLoopback(noProxy string) string {
	var hosts []string
	for _, h := range strings.Split(noProxy, ",") {
		if h = strings.TrimSpace(h); h != "" {
			hosts = append(hosts, h)
		}
	}
	for _, h := range []string{"localhost", "127.0.0.1", "::1"} {
		if !slices.Contains(hosts, h) && !slices.Contains(hosts, "*") {
			hosts = append(hosts, h)
		}
	}
	return strings.Join(hosts, ",")
}
