module github.com/paceline-proxy/paceline/bench

go 1.26

require github.com/paceline-proxy/paceline v0.0.0

replace github.com/paceline-proxy/paceline => ../
