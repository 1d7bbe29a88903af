package main

import (
	"fmt"
	"slices"
	"strings"
)

// oneOf is a flag that takes one of some words.
type oneOf struct {
	word  string
	words []string
}

func (o *oneOf) String() string { return o.word }

// Set takes a word.
func (o *oneOf) Set(s string) error {
	if !slices.Contains(o.words, s) {
		return fmt.Errorf("use %s", strings.Join(o.words, ", "))
	}
	o.word = s
	return nil
}

// Type lists the words, for help, completion and suggestions.
func (o *oneOf) Type() string { return strings.Join(o.words, "|") }
