package config

import (
	"fmt"
	"strings"
)

// A Fault is one thing that is wrong with a configuration.
type Fault struct {
	File   string `json:"file"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Path is the key, such as providers.groq.limits.maxPerMinute.
	Path    string `json:"path,omitempty"`
	Problem string `json:"problem"`
	// Advice is what to write.
	Advice string `json:"advice,omitempty"`
}

// Error is FILE:LINE:COLUMN: PATH: what is wrong; what to write.
func (f Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
	}
	if f.Path != "" {
		b.WriteString(": " + f.Path)
	}
	b.WriteString(": " + f.Problem)
	if f.Advice != "" {
		b.WriteString("; " + f.Advice)
	}
	return b.String()
}

// Faults are all that is wrong with a configuration, one a line.
type Faults []Fault

func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}
