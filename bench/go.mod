module github.com/paceline-proxy/paceline/bench

go 1.26.0

require (
	github.com/paceline-proxy/paceline v0.0.0
	golang.org/x/time v0.16.0
)

require (
	github.com/gofrs/flock v0.13.2 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/paceline-proxy/paceline => ../
