# The few commands that people and CI use. `make help` lists them.

CARGO ?= cargo

.DEFAULT_GOAL := help
.PHONY: help build dist run test lint crds bench-ground bench-loop clean

help: ## Prints this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Builds target/release/kardinal
	$(CARGO) build --release --locked --bin kardinal

dist: ## Builds target/dist/kardinal as it is shipped: slower to build, faster to run
	$(CARGO) build --profile dist --locked --bin kardinal

run: build ## Builds, then shows a sample application on its way to production; everything is kept in .kardinal
	target/release/kardinal up --demo

test: ## Runs all tests; the first run also builds the real kube-apiserver, controller-manager and etcd
	$(CARGO) test --workspace --locked

lint: ## Checks the format and the lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

crds: ## Writes deploy/, docs/reference/kinds.md and docs/reference/explain.schema.json anew from the types
	$(CARGO) run --quiet --locked -p kardinal-api --example generate-crds
	$(CARGO) run --quiet --locked -p kardinal-promotion --example generate-explain-schema

bench-ground: ## Compares the embedded server with kube-apiserver + etcd, and measures gates and Graphs
	$(CARGO) build --profile bench --locked --bin kardinal
	$(CARGO) bench --locked -p kardinal-e2e --bench ground

bench-loop: ## Measures how long a version travels and what it costs, on the local forge and on a real Gitea
	$(CARGO) bench --locked -p kardinal-e2e --bench loop

clean: ## Removes what was built; .kardinal stays
	$(CARGO) clean
