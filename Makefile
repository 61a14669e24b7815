# Run `make` or `make help` for the list of targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

GO ?= go
# Tools have a module of their own, so that users of the library don't inherit them.
TOOL := $(GO) tool -modfile=tools/go.mod
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Without the pages that gRPC would add to net/http: their templates call methods by name, for
# which the linker keeps every method there is.
TAGS := grpcnotrace
LDFLAGS := -s -w -X github.com/lovage-project/lovage/pkg/command.Version=$(VERSION)

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## Run real Celery against the worker with the embedded broker, and print what came back
	@bash examples/demo/run.sh

.PHONY: test
test: lint test-go test-bench check-manifests kill test-interop test-demo test-container ## Run everything CI runs

.PHONY: test-go
test-go: ## Run the Go tests with the race detector
	@GO=$(GO) bash scripts/gotest.sh -race ./...
	@GO=$(GO) bash scripts/gotest.sh -run OneMessage ./interop/gosdk # KubeMQ's SDK has a data race there

# What is measured beside the code. BenchmarkWork has a target of its own.
MICRO := -run '^$$' -bench . -skip '^BenchmarkWork$$' ./pkg/acks ./pkg/broker ./pkg/internal/... ./pkg/protocol ./pkg/results/... \
	./pkg/tasks/... ./pkg/transport/kubemq ./pkg/worker

.PHONY: test-bench
test-bench: ## Run each micro-benchmark once, so that they go on working
	@$(GO) test -benchtime 1x $(MICRO)

.PHONY: bench-micro
bench-micro: ## Run the micro-benchmarks: decoding, binding, encoding, the stores
	@$(GO) test -benchmem $(MICRO)

.PHONY: check-manifests
check-manifests: ## Check deploy/kubernetes against the API of Kubernetes and KEDA
# The manifests are outside of the test's module, so changes to them don't end the cache.
	cd deploy/kubernetes/check && $(GO) test -count=1 ./...

KILLS ?= 50

.PHONY: kill
kill: ## Kill the embedded broker KILLS times (default 50) under load and account for every message
	LOVAGE_BROKER_KILLS=$(KILLS) $(GO) test -count=1 -v -timeout 30m -run '^TestNothingAnsweredIsLostByKill9$$' ./pkg/broker

MESSAGES ?= 1000000

.PHONY: memory
memory: ## Queue MESSAGES messages of 1 KiB (default a million) in the embedded broker and measure its memory
	LOVAGE_BROKER_MEMORY_MESSAGES=$(MESSAGES) $(GO) test -count=1 -v -timeout 30m -run '^TestABacklogFitsInMemory$$' ./pkg/broker

HOLE ?= 60

.PHONY: faults
faults: ## Cut a busy worker off its broker in every way, with a black hole of HOLE seconds (default 60)
	LOVAGE_BLACK_HOLE_SECONDS=$(HOLE) $(GO) test -count=1 -v -timeout 30m -run '^TestFaults$$' ./pkg/command

.PHONY: test-interop
test-interop: ## Run real Celery, newest and old, and the KubeMQ SDK against the built binary
	bash interop/run.sh

.PHONY: test-demo
test-demo: demo ## Check that the demo works

.PHONY: test-container
test-container: build ## Check what a container needs: a static binary that runs as another user
	bash interop/container.sh

.PHONY: lint
lint: ## Check format and style
	$(TOOL) golangci-lint run ./...

.PHONY: fmt
fmt: ## Format the code
	$(TOOL) golangci-lint fmt ./...

.PHONY: vuln
vuln: ## Check the dependencies for known vulnerabilities (needs the vulnerability database)
	$(TOOL) govulncheck ./...

.PHONY: build
build: ## Build the static binary into bin/worker
	CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -ldflags '$(LDFLAGS)' -o bin/worker ./cmd/worker

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (default 30s)
	@bash scripts/fuzz.sh $(or $(FUZZTIME),30s)

.PHONY: bench
bench: ## Measure the worker beside a bare loop, Celery and other Go workers (15 to 20 minutes)
	@GO=$(GO) bash bench/run.sh -document docs/performance.md -json docs/performance.json -chart docs/performance.svg

.PHONY: bench-quick
bench-quick: ## See that the benchmark works (2 to 3 minutes)
	@GO=$(GO) bash bench/run.sh -quick

.PHONY: bench-memory
bench-memory: ## Measure the worker's memory with MESSAGES tasks queued, and as many waiting for their ETA
	@GO=$(GO) bash bench/run.sh -memory -messages $(MESSAGES) -document docs/performance.md

SOAK ?= 1h

.PHONY: soak
soak: ## Run 1,000 tasks a second for SOAK (default 1h), with panics and restarts of the broker
	@GO=$(GO) bash bench/run.sh -soak $(SOAK) -document docs/performance.md

.PHONY: bench-broker
bench-broker: ## Measure the embedded broker beside what the machine allows
	$(GO) run ./bench/broker -memory

.PHONY: bench-work
bench-work: ## Measure late-acked work with each strategy, with and without the quirks of the 2023 server
	$(GO) test -run '^$$' -bench '^BenchmarkWork$$' -benchtime 800x ./pkg/transport/kubemq

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin dist .venv-* data
