// Package hosts measures what hosts get of one limit that they keep together
// through a shared limiter: three proxies with homes of their own, a stand-in
// provider that counts by a rolling window and whose requests take a varying
// time to arrive, and Redis or Postgres as the limiter. With -outage the server
// of the limiter is killed and started again in the middle.
//
//	tools/servers run go test ./hosts -v -args -real [-json] [-outage]
package hosts
