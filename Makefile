# The one command surface, for people and for CI. Recipes longer than three lines live in scripts/.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo demo-partitions demo-credentials up down test test-credentials sim chaos soak bench-election bench-partitions mutants fmt lint docs deny crds verify tools basics

SEED ?=
HOURS ?= 10000

help: ## List the targets
	@awk -F ':.*## ' '/^## /{print "\n" substr($$0, 4)} /^[a-z-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' Makefile

## See it

demo: basics ## A control plane, the operator, three pods, three failovers, narrated (about half a minute, warm)
	@scripts/demo.sh

demo-partitions: basics ## Six pods, 64 partitions and a stream of keyed writes: scaled, killed, rolled out, resized
	@scripts/demo-partitions.sh

demo-credentials: tools ## Logins on a Postgres and a Redis that change three times under load, and are mended
	@scripts/demo-credentials.sh

up: basics ## The same left running; prints the KUBECONFIG line
	@scripts/up.sh

down: ## Remove what `make up` left running
	@scripts/down.sh

## Prove it

test: tools ## Everything: unit, transcripts, model, simulation, and a real control plane with 60 s of chaos
	@scripts/test.sh $(ARGS)

sim: basics ## Long simulation of the election: SEED= (random if empty) HOURS= (simulated)
	@SEED=$(SEED) HOURS=$(HOURS) scripts/sim.sh

chaos: tools ## Six minutes of faults for an election and ten for partitions, judged by a separate checker
	@scripts/chaos.sh

soak: tools ## Half an hour of chaos, ten settled minutes with zero writes, and 1,000 services
	@scripts/soak.sh

bench-election: basics ## Failover, load and memory beside client-go; writes target/bench/election.json
	@scripts/bench-election.sh

bench-partitions: basics ## Keys, plans and moves beside other ways; handoffs, crashes and requests on a control plane
	@scripts/bench-partitions.sh
	@scripts/bench-partitions-cluster.sh

test-credentials: tools ## Logins on Postgres 15, 16, 18, Redis 7.0 and Valkey 8.1; 20 rotations under load; failovers; 500 services
	@scripts/test-credentials.sh

mutants: basics ## Mutation test of runtime-lib/core (cargo-mutants, installed if missing)
	@scripts/mutants.sh

## Keep it

fmt: ## Format all Rust code
	@cargo fmt --all

lint: basics ## Format check, house rules, clippy with warnings denied
	@scripts/lint.sh

docs: basics ## API documentation; a broken link is an error
	@scripts/docs.sh

deny: basics ## Licences, sources and banned crates (cargo-deny, installed if missing)
	@scripts/deny.sh

crds: basics ## Generate crds/*.yaml from the Rust types
	@scripts/build.sh --xtask && "$${CARGO_TARGET_DIR:-target}/debug/xtask" crds

verify: basics ## Fail if a generated file differs from what would be generated now
	@scripts/verify.sh

tools: ## Install what is missing (as root on Debian), or print the command that does
	@scripts/install-tools.sh

basics: ## The same without the servers that only tests start
	@scripts/install-tools.sh --without-servers
