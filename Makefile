# The commands of this repository. Plain `make` lists them.
# Each does its work in a script or in cargo; this file only gives them names.

.DEFAULT_GOAL := help
.PHONY: help demo page cluster scenarios pressure test oracle e2e e2e-full conformance e2e-node mutants lint fmt build package package-test bench bench-quick bench-core bench-node \
  clean-env

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Run the pods of examples/ on this machine, look at them, clean up (needs root)
	@tests/env/demo.sh

cluster: ## A cluster that kubeadm makes of two machines with systemd, a Deployment behind a Service, clean up; KEEP=1 (needs root)
	@tests/machine/demo.sh

scenarios: ## Bad days of such a cluster: reboots, power losses, restarts of everything, upgrades; NAMES="reboot power" chooses (needs root)
	@tests/machine/scenarios.sh $(NAMES)

pressure: ## A node under pressure, with rubelet and with upstream's kubelet: are the right pods evicted, and how fast? LOADS="leak inodes" chooses (needs root)
	@tests/machine/pressure.sh $(LOADS)

test: ## Install what the tests need and run them all; TIERS="fast doc node vm machine" chooses
	@tests/env/test.sh

oracle: ## Upstream's own functions and ours answer the same generated cases; CASES=, FUNCTION=, SEED=, REPLAY= choose
	@tests/oracle/run.sh

e2e: ## A choice of upstream's e2e suite on a real control plane, and scenarios; FOCUS=, SKIP=, NODE=upstream choose (needs root)
	@tests/e2e/run.sh

page: ## The page for people in a headless Chromium; SHOTS=DIR also takes pictures
	@tests/e2e/page.sh

e2e-full: ## Everything of it that upstream passes; notes the commit in docs/conformance.md (needs root)
	@SIZE=full tests/e2e/run.sh

conformance: ## Upstream's [Conformance] suite on a cluster of two machines that kubeadm made; NODE=upstream, FOCUS=, RESUME=1 choose (needs root)
	@tests/machine/conformance.sh

e2e-node: ## Upstream's node suite in a machine with systemd; FOCUS=, SKIP=, NODE=upstream choose (needs root)
	@tests/machine/e2e-node.sh

mutants: ## Bugs put into what a change touches, one at a time: do tests find them? MUTANTS_BASE=main, or CRATE=core for a whole crate
	@tests/env/mutants.sh

lint: ## Formatting, clippy, docs, licences and sources of dependencies, shell scripts
	@tests/env/lint.sh

fmt: ## Format the code
	@cargo fmt --all

build: ## Build the program as it is shipped: target/release/rubelet
	@NODE_PROFILE=release tests/env/rubelet.sh

package: ## A Debian package and a tar.gz of it, in target/package
	@packaging/build.sh

package-test: ## Packs twice, then installs, upgrades, swaps and removes the package in machines of its own (needs root)
	@packaging/test.sh

bench: ## rubelet and upstream's kubelet side by side, three rounds, into docs/performance.md; about an hour (needs root)
	@tests/bench/side.sh

bench-quick: ## A short form of it, under five minutes once built; fails when rubelet has fallen back against upstream
	@tests/bench/side.sh --quick

bench-core: ## Cost of decisions and of an idle engine with 1,000 fake pods
	@cargo bench --locked --profile bench-quick -p rubelet-engine --bench core

bench-node: ## rubelet's share of a pod's start, and its cost when idle, on a real containerd (needs root)
	@tests/bench/node.sh

clean-env: ## Stop machines and private containerds that were left behind, and remove the cache of the tests
	@tests/env/clean.sh
