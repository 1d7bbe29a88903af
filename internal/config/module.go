package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// A Module is the manifest of a limiter that a host starts or reaches:
// lf-external.yaml in a folder of its own.
type Module struct {
	// Dir is its folder, where Command is started.
	Dir string

	Name string
	Kind string
	Slot string
	// Command is the program and its arguments. Empty: the module runs already.
	Command []string
	// URL is where it is reached. Empty: at the port it is told, or where it says.
	URL      string
	Settings []Setting
}

// A Setting is something that a module wants to know when it is opened.
type Setting struct {
	Name string
	// Label is what people are asked for. Empty: the name.
	Label string
	// Secret settings are neither shown nor logged.
	Secret bool
}

// ManifestFile is the name of every manifest.
const ManifestFile = "lf-external.yaml"

// SettingsFile is beside the manifest, for its owner only.
const SettingsFile = "settings.yaml"

// LoadModule reads the manifest in a folder. Everything that is wrong with it
// is one error, [Faults]; where there is none it is [Unreadable].
func LoadModule(dir string) (*Module, error) {
	path := filepath.Join(dir, ManifestFile)
	b, _, err := readFile(path, mostBytes)
	if err != nil {
		return nil, Unreadable{Fault{File: path, Problem: err.Error(), Advice: "a module is a folder with this file: name, kind: core, slot: limiter, and command: or url:"}}
	}
	m := &Module{Dir: dir}
	r := newReader(path, os.LookupEnv)
	r.mapping(b, module(m))
	m.finish(r)
	return m, r.all()
}

// mapping reads a whole file as one mapping.
func (r *reader) mapping(b []byte, k object) {
	if root := r.parse(b); root != nil {
		r.at[""] = &token.Position{Line: 1, Column: 1} // of what is missing
		k.read(r, root, "")
	}
}

// all is everything that was found wrong, in the order of the file, or nil.
func (r *reader) all() error {
	if len(r.faults) == 0 {
		return nil
	}
	r.faults.sort()
	return r.faults
}

// module is every key of a manifest.
func module(m *Module) object {
	return object{fields: []field{
		{name: "name", kind: text[string]{p: &m.Name, what: "the name of the module's folder"}},
		{name: "kind", kind: only(&m.Kind, "core")},
		{name: "slot", kind: only(&m.Slot, "limiter")},
		{name: "command", kind: list[string]{p: &m.Command, what: "a program and its arguments", of: func(s *string) kind {
			return text[string]{p: s, what: "a program or an argument"}
		}}},
		{name: "url", kind: text[string]{&m.URL, "http://HOST:PORT, https://… or unix:PATH", moduleURL}},
		{name: "settings", kind: list[Setting]{p: &m.Settings, what: "settings", of: func(s *Setting) kind {
			return object{fields: []field{
				{name: "name", kind: text[string]{&s.Name, "a name such as url", settingName}},
				{name: "label", kind: text[string]{p: &s.Label, what: "what to ask for"}},
				{name: "secret", kind: truth{&s.Secret}},
			}}
		}}},
	}}
}

// only is a text that can be but one.
func only(p *string, word string) text[string] {
	return text[string]{p, word, func(s string) (string, string) {
		if s != word {
			return "is not supported", "write " + word
		}
		return "", ""
	}}
}

func moduleURL(s string) (problem, advice string) {
	for _, scheme := range []string{"http://", "https://", "unix:"} {
		if rest, ok := strings.CutPrefix(s, scheme); ok && rest != "" {
			return "", ""
		}
	}
	return "is no URL of a limiter", "write http://HOST:PORT, https://HOST or unix:PATH"
}

var settingForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

func settingName(s string) (problem, advice string) {
	if !settingForm.MatchString(s) {
		return "is no name of a setting", "write letters, digits, _, . and -, such as url"
	}
	return "", ""
}

// finish checks what no value shows alone.
func (m *Module) finish(r *reader) {
	if len(r.faults) > 0 && len(r.at) <= 1 {
		return // nothing of it could be read
	}
	folder := filepath.Base(m.Dir)
	for _, key := range []struct{ name, value, advice string }{
		{"name", m.Name, "write name: " + folder},
		{"kind", m.Kind, "write kind: core"},
		{"slot", m.Slot, "write slot: limiter"},
	} {
		if key.value == "" {
			r.unlessFaulty(key.name, key.name, "is missing", key.advice)
		}
	}
	if m.Name != "" && m.Name != folder {
		r.faultAt("name", fmt.Sprintf("%s is not the name of its folder, %s", quoted(m.Name), quoted(folder)), "write name: "+folder+", or rename the folder")
	}
	_, commanded := r.at["command"]
	switch _, reached := r.at["url"]; {
	case commanded && len(m.Command) == 0 && r.at["command[0]"] == nil:
		r.unlessHeard("command", "names no program", "write a list: [PROGRAM, ARGUMENT, …]")
	case !commanded && !reached:
		r.faultAt("command", "is missing", "write command: [PROGRAM, ARGUMENT, …], or url: where the module runs already")
	}
	for i, s := range m.Settings {
		at := fmt.Sprintf("settings[%d]", i)
		if s.Name == "" {
			r.unlessFaulty(at+".name", at, "has no name", "write name: and what the module calls it")
		}
		for j, other := range m.Settings[:i] {
			if s.Name != "" && s.Name == other.Name {
				r.faultAt(at+".name", fmt.Sprintf("%s is given twice, first as settings[%d]", quoted(s.Name), j), "keep one of the two")
			}
		}
	}
}

// unlessHeard says what is wrong with a value, unless something has been.
func (r *reader) unlessHeard(path, problem, advice string) {
	for _, f := range r.faults {
		if f.Path == path {
			return
		}
	}
	r.faultAt(path, problem, advice)
}

// A Value is what a setting is set to.
type Value struct {
	// Written is what the file says, which may be a reference, ${NAME} or
	// file:PATH.
	Written string
	// Value is what is meant. It may be empty where a variable is.
	Value string
}

// LoadSettings reads the settings of a module. Where there is no file there
// are none. What could be read is there beside [Faults], too.
func (m *Module) LoadSettings() (map[string]Value, error) {
	path := filepath.Join(m.Dir, SettingsFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return map[string]Value{}, nil
	}
	b, info, err := readFile(path, mostBytes)
	if err != nil {
		return nil, Unreadable{Fault{File: path, Problem: err.Error(), Advice: "paceline connect " + m.Name + " writes it anew"}}
	}
	values, err := m.ReadSettings(b)
	if err == nil && othersRead(info) && m.secrets() {
		err = Faults{{File: path, Problem: "can be read by other users, and holds secrets", Advice: "chmod 600 it"}}
	}
	return values, err
}

func (m *Module) secrets() bool {
	for _, s := range m.Settings {
		if s.Secret {
			return true
		}
	}
	return false
}

// ReadSettings reads the content of a file of settings.
func (m *Module) ReadSettings(b []byte) (map[string]Value, error) {
	r := newReader(filepath.Join(m.Dir, SettingsFile), os.LookupEnv)
	read := make([]Value, len(m.Settings))
	var o object
	for i, s := range m.Settings {
		o.fields = append(o.fields, field{name: s.Name, kind: setting{&read[i], s.Secret}})
	}
	r.mapping(b, o)
	values := make(map[string]Value)
	for i, s := range m.Settings {
		if read[i].Written != "" {
			values[s.Name] = read[i]
		}
	}
	return values, r.all()
}

// WriteSettings is a file that says what is written, in the order of the
// manifest.
func (m *Module) WriteSettings(written map[string]string) ([]byte, error) {
	out := yaml.MapSlice{}
	for _, s := range m.Settings {
		if w := written[s.Name]; w != "" {
			out = append(out, yaml.MapItem{Key: s.Name, Value: w})
		}
	}
	return yaml.Marshal(out)
}

// Literal writes a value that is meant as it is.
func Literal(value string) string { return escaped(value) }

// Reference reports whether a setting is written as file:PATH or with ${NAME}
// in it, so that what is secret of it is elsewhere.
func Reference(written string) bool {
	if strings.HasPrefix(written, "file:") {
		return true
	}
	for _, v := range variable.FindAllString(written, -1) {
		if strings.HasPrefix(v, "${") && strings.HasSuffix(v, "}") {
			return true
		}
	}
	return false
}

// setting is one of a module's, secret or not.
type setting struct {
	p      *Value
	secret bool
}

func (k setting) read(r *reader, n ast.Node, path string) {
	s, ok := r.scalar(n, path, k.says())
	k.p.Written = s.raw
	if !ok {
		return
	}
	if name, ok := strings.CutPrefix(s.value, "file:"); ok {
		b, _, err := readFile(r.resolvePath(name), mostSecret)
		if b = bytes.TrimSpace(b); err == nil && len(b) == 0 {
			err = errors.New("is empty")
		}
		if err != nil {
			r.fault(n, path, "the file of the setting "+err.Error(), "write file: and the path of a file that holds the value alone")
			return
		}
		s.value = string(b)
	}
	if strings.ContainsFunc(s.value, unicode.IsControl) {
		r.fault(n, path, "holds a line break or another control character", "give the value alone")
		return
	}
	k.p.Value = s.value
}

func (k setting) show() any {
	if k.p.Written == "" {
		return nil
	}
	if k.secret {
		return "(hidden)"
	}
	return k.p.Written
}

func (k setting) says() string    { return "a value, ${NAME} of a variable or file:PATH" }
func (k setting) schema() *schema { return &schema{Type: "string"} }
