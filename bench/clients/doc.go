// Package clients runs the SDKs of model providers over paceline.Transport, as
// a program would. It is a module of its own: what the SDKs need is nothing
// that paceline needs.
package clients
