// Package clients runs the SDKs and agents of model providers over paceline, as
// their users do: over a Transport in virtual time, and over the real proxy on
// real sockets. It is a module of its own: what the SDKs need is nothing that
// paceline needs.
//
// The SDKs for Node are installed from node/package-lock.json the first time
// they are needed. Without Node their tests are skipped, except where CI is
// set.
package clients
