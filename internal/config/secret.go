package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// secret is a text that is never shown. It is written as ${NAME}, as
// file:PATH, or as it is.
type secret struct {
	p     *string
	check func(value string) (problem, advice string)
}

const mostSecret = 64 << 10

var bareVariable = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*$`)

func (k secret) read(r *reader, n ast.Node, path string) {
	s, ok := r.scalar(n, path, k.says())
	if !ok {
		return
	}
	bad := func(problem, advice string) { r.fault(n, path, problem, advice) }
	if bareVariable.MatchString(s.raw) {
		bad(s.raw+" is taken as it is, not as a variable", "write ${"+s.raw[1:]+"}, or $"+s.raw+" if it is meant so")
		return
	}
	value := s.value
	if name, ok := strings.CutPrefix(value, "file:"); ok {
		b, info, err := readFile(r.resolvePath(name), mostSecret)
		if b = bytes.TrimSpace(b); err == nil && len(b) == 0 {
			err = errors.New("is empty")
		}
		if err != nil {
			bad("the file of the secret "+err.Error(), "write file: and the path of a file that holds the secret alone")
			return
		}
		if othersRead(info) {
			r.warn(path, "the file of the secret can be read by other users", "chmod 600 it")
		}
		value = string(b)
	} else if s.raw == s.value {
		r.plain = append(r.plain, path)
	}
	switch {
	case value == "":
		bad("is empty", "write "+k.says()+", or leave it out")
		return
	case strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c >= 0x7f }):
		bad("holds a space, a line break or a sign that no secret has", "give the secret alone")
		return
	}
	if k.check != nil {
		if problem, advice := k.check(value); problem != "" {
			bad(problem, advice)
			return
		}
	}
	*k.p = value
}

func (k secret) show() any {
	if *k.p == "" {
		return nil
	}
	return "(hidden)"
}

func (k secret) says() string { return "${NAME} of a variable or file:PATH" }
func (k secret) schema() *schema {
	return &schema{AnyOf: []*schema{{Type: "string"}, {Type: "integer"}}}
}

// resolvePath makes a path of the configuration file one of this process.
func (r *reader) resolvePath(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(r.file), name)
}

// readFile reads a file of at most most bytes. Its errors do not repeat the
// path.
func readFile(path string, most int64) ([]byte, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, cannot(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, cannot(err)
	}
	if info.IsDir() {
		return nil, nil, errors.New("is a directory")
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, nil, cannot(err)
	case int64(len(b)) > most:
		return nil, nil, fmt.Errorf("is larger than %d KiB", most>>10)
	}
	return b, info, nil
}

// cannot says why a file was not read.
func cannot(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return errors.New("cannot be read: " + err.Error())
}

// othersRead reports whether a file is open to more than its owner.
func othersRead(info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0
}
