//go:build !linux

package sqlite

// network is empty where we have no way to tell.
func network(string) string { return "" }
