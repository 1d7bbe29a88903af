// Package goodput measures how much of a provider's allowance a way of calling
// it uses, and how often it is refused on the way.
//
// The provider is the stand-in of package stub. Clients that always have work
// call it through one system under test; what they got through in a span, by
// arrival at the meters, is set against what a perfectly informed client gets
// in the same span (see [Oracle]). All of it runs in the virtual time of a
// testing/synctest bubble, so hours take seconds and nothing is blurred by the
// machine; [Trial.Run] works in real time as well.
//
// The measurement is TestGoodput, since only a test can open a bubble:
//
//	go test ./goodput -run TestGoodput -count=1 -v -args -seeds 5
package goodput
