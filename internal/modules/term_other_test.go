//go:build !unix

package modules_test

func ignoreTerm() {}
