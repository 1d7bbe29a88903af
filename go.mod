module github.com/paceline-proxy/paceline

go 1.26
