// Package ptytest runs programs at a terminal, for tests on Linux.
package ptytest
