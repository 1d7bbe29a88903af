//go:build !linux

package main

import (
	"errors"
	"strings"
)

func mountSmall(string, int) error { return errors.ErrUnsupported }
func unmount(string) error         { return errors.ErrUnsupported }

func refusedConnection(err error) bool {
	return strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "reset") || strings.Contains(err.Error(), "EOF")
}
