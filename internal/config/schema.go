package config

import (
	"encoding/json"

	"github.com/goccy/go-yaml"
)

// A schema is the part of JSON Schema 2020-12 that the table needs.
type schema struct {
	Schema               string             `json:"$schema,omitempty"`
	Title                string             `json:"title,omitempty"`
	Description          string             `json:"description,omitempty"`
	Type                 string             `json:"type,omitempty"`
	Enum                 []string           `json:"enum,omitempty"`
	Pattern              string             `json:"pattern,omitempty"`
	Minimum              *float64           `json:"minimum,omitempty"`
	Maximum              *float64           `json:"maximum,omitempty"`
	ExclusiveMinimum     *float64           `json:"exclusiveMinimum,omitempty"`
	ExclusiveMaximum     *float64           `json:"exclusiveMaximum,omitempty"`
	Default              any                `json:"default,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	AdditionalProperties any                `json:"additionalProperties,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	AnyOf                []*schema          `json:"anyOf,omitempty"`
	AllOf                []*schema          `json:"allOf,omitempty"`
	Not                  *schema            `json:"not,omitempty"`
	Required             []string           `json:"required,omitempty"`
}

// variables is a text that environment variables are put into, so that the
// file alone does not say what it is.
var variables = &schema{Type: "string", Pattern: `\$\{.+\}`}

// Schema is a JSON Schema of the configuration, for editors.
func Schema() []byte {
	s := table(Default()).schema()
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "The configuration of paceline"
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // there is nothing in it that cannot be marshalled
	}
	return append(b, '\n')
}

func (k object) schema() *schema {
	s := &schema{Type: "object", Properties: map[string]*schema{}, AdditionalProperties: false}
	for _, f := range k.fields {
		v := f.kind.schema()
		v.Description = f.doc
		if f.later != "" {
			v.Description += " Not supported yet: " + f.later + "."
		}
		switch d := f.kind.show().(type) {
		case yaml.MapSlice, []any: // their parts have their own
		default:
			v.Default = d
		}
		s.Properties[f.name] = v
		if f.alias != "" {
			a := *v
			a.Description = "Short for " + f.name + ". " + v.Description
			s.Properties[f.alias] = &a
			s.AllOf = append(s.AllOf, &schema{Not: &schema{Required: []string{f.name, f.alias}}})
		}
	}
	empty := []*schema{s, {Type: "null"}}
	if k.off != nil {
		empty = append(empty, &schema{Type: "boolean"})
	}
	return &schema{AnyOf: empty}
}

func (k list[T]) schema() *schema {
	of := k.of(new(T)).schema()
	s := &schema{AnyOf: []*schema{{Type: "array", Items: of}, {Type: "null"}}}
	if k.single {
		s.AnyOf = append(s.AnyOf, of)
	}
	return s
}

func (k named[T]) schema() *schema {
	return &schema{AnyOf: []*schema{{Type: "object", AdditionalProperties: k.of(new(T)).schema()}, {Type: "null"}}}
}
