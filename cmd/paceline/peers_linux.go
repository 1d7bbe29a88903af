package main

// knowsPeers is whether the proxy sees which user a loopback connection is of.
const knowsPeers = true
