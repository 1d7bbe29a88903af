module github.com/paceline-proxy/paceline/bench

go 1.26.0

require (
	github.com/paceline-proxy/paceline v0.0.0
	golang.org/x/time v0.16.0
)

replace github.com/paceline-proxy/paceline => ../
