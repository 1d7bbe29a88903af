//go:build !linux

package main

const knowsPeers = false
