# `make` or `make help` lists the targets. Each of them is a short command that you can also type.
# All you need is Rust and, on Debian, apt-get.

.DEFAULT_GOAL := help
.PHONY: help demo run check test nightly soak mutations model image install-envtest release lint fmt docs docs-man docs-metrics docs-schemas dashboard deny bench-e2e bench-node bench-scale bench-small bench-insight ci clean prerequisites control-plane node-oracle

CARGO ?= cargo

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Without the allocator, whose C code takes long to compile.
QUICK ?= --no-default-features --features demo
# Node collection has dependencies of its own, which the other scenarios need not wait for.
NODE = $(if $(findstring --node,$(ARGS)),--features node)

demo: prerequisites ## run the demo: an API server, a shop and the collector in one process (ARGS=--once, --objects=100000, --node)
	$(CARGO) run --locked --bin kube-gc $(QUICK) $(NODE) -- demo $(ARGS)

run: prerequisites control-plane ## run the collector on a real API server and delete a sample Deployment (ARGS=--foreground, --stay)
	KUBE_GC_BUILD_FLAGS="$(QUICK)" tests/control-plane/run-sample.sh $(ARGS)

check: prerequisites ## run what a commit must pass: formatting, clippy, unit tests, the policy scenarios on the embedded server
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --locked -- -D warnings
	$(CARGO) test --locked --lib
	$(CARGO) test --locked --test scenarios -- embedded::conformance::policies

test: prerequisites ## run the tests of the gate, many of them on a real API server
	@tests/control-plane/ensure.sh kube-controller-manager >/dev/null
	CARGO="$(CARGO)" tests/all.sh

nightly: prerequisites ## run what the gate leaves out: more environments, browser, optimized simulation, mutations, packages, image
	@tests/prerequisites.sh browser
	@tests/control-plane/ensure.sh kube-controller-manager >/dev/null
	CARGO="$(CARGO)" tests/all.sh --nightly
	CARGO="$(CARGO)" tests/packages.sh
	$(MAKE) image

SECONDS ?= 600

soak: prerequisites ## run the optimized simulation for SECONDS=600 on all cores (ARGS=--help)
	$(CARGO) test --locked --profile soak --test simulation -- --seconds $(SECONDS) $(ARGS)

mutations: prerequisites ## check that the simulation finds each deliberate mistake in the collector
	$(CARGO) test --locked --profile soak --test simulation -- --mutations $(ARGS)

model: prerequisites ## explore every interleaving of users, faults and the core with a few objects (ARGS=--deep, --mutations, --help)
	$(CARGO) test --locked --profile soak -p kube-gc-core --features mutations,test-util --test model -- $(ARGS)

image: control-plane ## build the static binary and the image, and run the image's content as the manifests do
	@tests/prerequisites.sh image
	tests/image.sh

install-envtest: prerequisites ## build the binary and put it beside envtest's kube-apiserver (KUBEBUILDER_ASSETS, or where setup-envtest puts it)
	$(CARGO) build --locked --release --bin kube-gc
	deploy/install-envtest "$${CARGO_TARGET_DIR:-target}/release/kube-gc"

release: prerequisites ## build a release from a clean tree into dist/, see docs/releasing.md (ARGS=--twice)
	@tests/prerequisites.sh image
	deploy/release $(ARGS)

lint: prerequisites ## check formatting, clippy and documentation; warnings are errors
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --locked -- -D warnings
	$(CARGO) clippy --bench scale --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --document-private-items --locked

fmt: ## format the sources
	$(CARGO) fmt

docs: ## open the library's documentation in the browser
	$(CARGO) doc --no-deps --locked --open

docs-metrics: ## write docs/metrics.md again, after a metric was added or changed
	KUBE_GC_WRITE_DOCS=1 $(CARGO) test --locked -p kube-gc-observe --lib -- telemetry::names

docs-schemas: ## write docs/schemas again, after the JSON of an answer was changed
	KUBE_GC_WRITE_DOCS=1 $(CARGO) test --locked --lib -- insight::schemas

docs-man: ## write docs/man again, after the command line was changed
	KUBE_GC_WRITE_DOCS=1 $(CARGO) test --locked --lib -- cli::man

deny: ## check licences, bans and sources of the dependencies (needs cargo-deny)
	$(CARGO) deny --locked check licenses bans sources

dashboard: prerequisites ## generate grafana/kube-gc.json from grafana/dashboard.toml
	KUBE_GC_WRITE=dashboard $(CARGO) test --locked --test monitoring -- the_dashboard_is

bench-e2e: prerequisites ## compare with kube-controller-manager on a real API server, see docs/benchmarks.md (ARGS=--quick, --help)
	$(CARGO) bench --locked --bench end_to_end -- $(ARGS)

bench-node: prerequisites node-oracle ## compare node collection with the kubelet's own functions, see docs/benchmarks.md (ARGS="--rounds N")
	@tests/prerequisites.sh image
	binary=$$(deploy/build-static) && $(CARGO) bench --locked --bench node -- --kube-gc "$$binary" $(ARGS)

bench-insight: prerequisites ## measure what answers about 1,000,000 objects cost, see docs/benchmarks.md (ARGS=--quick, --help)
	$(CARGO) bench --locked --bench insight -- $(ARGS)

bench-scale: prerequisites ## measure 10,000 to 1,000,000 objects, see docs/benchmarks.md (ARGS=--quick, --help)
	$(CARGO) bench --locked --bench scale -- $(ARGS)

bench-small: prerequisites control-plane ## measure one and eight small collectors on one API server (ARGS="--collectors N")
	benches/small.sh $(ARGS)

ci: ## run everything that continuous integration checks
	.ci/run

clean: ## remove build output (the cached control plane stays)
	$(CARGO) clean

prerequisites:
	@tests/prerequisites.sh

control-plane: prerequisites
	@tests/control-plane/ensure.sh >/dev/null

node-oracle: prerequisites
	@tests/node-oracle/ensure.sh >/dev/null
