# `make` or `make help` lists what there is. Everything is a short command that
# can also be typed; nothing needs more than Rust and, on Debian, apt-get.

.DEFAULT_GOAL := help
.PHONY: help demo run check test soak mutations image lint fmt docs docs-metrics dashboard picture deny bench bench-encoding bench-e2e bench-scale ci clean prerequisites control-plane

CARGO ?= cargo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# In the profile of the tests and with their features, but without the allocator, whose C takes
# long to compile: the first build is quick, and the tests use what it has compiled.
QUICK ?= --no-default-features --features demo,dev

demo: prerequisites ## show it: an API server, a shop and the collector in one process (ARGS=--once, --objects=100000)
	$(CARGO) run --locked --bin kube-gc $(QUICK) -- demo $(ARGS)

run: prerequisites control-plane ## show it: a real API server, a sample, a deletion, the cascade (ARGS=--foreground, --stay)
	KUBE_GC_BUILD_FLAGS="$(QUICK)" tests/control-plane/run-sample.sh $(ARGS)

check: prerequisites ## before each commit: formatting, clippy, unit tests, the policies on the embedded server
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --locked -- -D warnings
	$(CARGO) test --locked --lib
	$(CARGO) test --locked --test scenarios -- embedded::conformance::policies

test: prerequisites ## all tests, against a real API server too
	@tests/control-plane/ensure.sh kube-controller-manager >/dev/null
	$(CARGO) test --locked

SECONDS ?= 600

soak: prerequisites ## simulate for SECONDS=600, on all cores, optimised (ARGS=--help)
	$(CARGO) test --locked --profile soak --test simulation -- --seconds $(SECONDS) $(ARGS)

mutations: prerequisites ## make mistakes on purpose, and see that the simulation finds each
	$(CARGO) test --locked --profile soak --test simulation -- --mutations $(ARGS)

image: control-plane ## build the static binary and the image, and run what is in it as the manifests do
	@tests/prerequisites.sh image
	tests/image.sh

lint: prerequisites ## formatting, clippy, documentation; warnings are errors
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --locked -- -D warnings
	$(CARGO) clippy --bench scale --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items --locked

fmt: ## format the sources
	$(CARGO) fmt

docs: ## the library's documentation, in the browser
	$(CARGO) doc --no-deps --locked --open

docs-metrics: ## write docs/metrics.md anew, after a metric has come or changed
	KUBE_GC_WRITE_DOCS=1 $(CARGO) test --locked --lib -- telemetry::docs

deny: ## licences, bans and sources of the dependencies (needs cargo-deny)
	$(CARGO) deny --locked check licenses bans sources

dashboard: prerequisites ## make grafana/kube-gc.json of grafana/dashboard.toml
	KUBE_GC_WRITE=dashboard $(CARGO) test --locked --test monitoring -- the_dashboard_is

picture: prerequisites control-plane ## draw grafana/kube-gc.svg, from a real Prometheus that watches real collectors
	KUBE_GC_PICTURE=grafana/kube-gc.svg $(CARGO) test --locked --test monitoring -- every_query_has_data

bench: prerequisites ## what the core costs, in time and memory (ARGS=--save-baseline NAME, then ARGS=--baseline NAME)
	$(CARGO) bench --locked --bench core -- $(ARGS)
	$(CARGO) bench --locked --bench allocations

bench-encoding: prerequisites control-plane ## what lists cost in JSON and protobuf, with and without gzip (ARGS="OBJECTS ROUNDS LISTS")
	$(CARGO) bench --locked --bench encoding -- $(ARGS)

bench-e2e: prerequisites ## measure on a real API server, next to its own collector; docs/benchmarks.md (ARGS=--quick, --help)
	$(CARGO) bench --locked --bench end_to_end -- $(ARGS)

bench-scale: prerequisites ## measure what 10,000 to 1,000,000 objects take; docs/scale.md (ARGS=--quick, --full, --help)
	$(CARGO) bench --locked --bench scale -- $(ARGS)

ci: ## what continuous integration runs
	.ci/run

clean: ## remove what was built here (the cached control plane stays)
	$(CARGO) clean

prerequisites:
	@tests/prerequisites.sh

control-plane: prerequisites
	@tests/control-plane/ensure.sh >/dev/null
