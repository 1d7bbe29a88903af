# Every target here needs Go; the clients and agents for Node need it and npm.
# `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
# Benchmarks and other people's clients are modules of their own, so that nobody
# who uses paceline downloads what it is compared and tested with.
MODULES := . bench clients
FUZZTIME ?= 10s
SEEDS ?= 5

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
# What clients tests is a program that it builds, which go test's cache does not
# know of.
test: ## vet and test every module, with the race detector, beside servers
	@tools/servers install
	@tools/servers run bash -c 'for m in $(MODULES); do echo "== $$m"; \
	  (cd $$m && go vet ./... && go test -race $$([ $$m = clients ] && echo -count=1) ./...) || exit 1; done'

.PHONY: test-agents
test-agents: ## run Claude Code and Codex over the proxy; npm installs them, 900 MB
	cd clients && PACELINE_AGENTS=1 go test -run TestAgents -count=1 -timeout 15m -v .

.PHONY: lint
lint: ## formatting and static analysis (staticcheck.conf says what is off, and why)
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	@go tool -modfile=tools/go.mod staticcheck ./...

.PHONY: spec
spec: ## list the statements of docs/SPEC.md that no test names
	@comm -23 \
	  <(grep -oE '^- (P|L|R|S|CC)-[0-9]+' docs/SPEC.md | cut -c3- | sort -u) \
	  <(grep -rhoE '\b(P|L|R|S|CC)-[0-9]+\b' $$(find . -name '*_test.go' -o -name '*.txtar' -o -path './limiter/limitertest/*.go') | sort -u) \
	  | sort -V

.PHONY: contract
contract: ## run every limiter's contract and write docs/contract.md
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	  PACELINE_CONTRACT=$$dir tools/servers run go test -count=1 \
	    -run 'Contract|Race|TenProcesses|OverTheWire' ./limiter/memory ./limiter/sqlite ./limiter/redis ./limiter/postgres ./internal/promises && \
	  PACELINE_CONTRACT=$$dir go test -count=1 -run TestTable ./internal/promises -update

.PHONY: fuzz
fuzz: ## fuzz every parser, FUZZTIME (10s) each
	@go list ./... | while read -r p; do \
	  for f in $$(go test -list '^Fuzz' $$p | grep ^Fuzz); do \
	    echo "== $$p $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p || exit 1; done; done

.PHONY: demo
demo: ## two pacings against one small bucket, side by side, for 45 seconds
	go run ./cmd/paceline demo

.PHONY: goodput
goodput: ## successes beside a perfectly informed client, in virtual time, SEEDS (5) runs a scenario
	cd bench && go test ./goodput -run TestGoodput -count=1 -v -args -seeds $(SEEDS)

.PHONY: crash
crash: ## kill paceline serve at random instants under load, a hundred times (about 3 minutes)
	cd bench && go run ./crash

.PHONY: bench
bench: ## what the limiters, the proxy and the log cost, beside x/time/rate, redis_rate, pgbench and a bare ReverseProxy
	@tools/servers install
	cd bench && go run ./limiter && go run ./shared && go run ./proxy && go run ./history
