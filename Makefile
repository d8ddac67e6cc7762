# Everything a person types. `make help` lists it; the work is done by requirements/install.py and the command line.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# What callers have set for a Python of their own would hide or break what is pinned here.
unexport PYTHONHOME PYTHONPATH
# What the platform writes and where it lies is UTF-8 in any locale.
run stop: export PYTHONUTF8 := 1

# The first Python that is of a right version and really runs: a shim in the PATH may be there and fail.
ifndef PYTHON
PYTHON := $(shell unset PYTHONHOME PYTHONPATH; for name in python3.11 python3.12 python3 python; do for path in $$(type -aP $$name 2>/dev/null); do \
  "$$path" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null && echo "$$path" && exit; \
  done; done)
endif
VENV_PYTHON := .venv/bin/python
PARALLELSEARCH := $(VENV_PYTHON) -m parallelsearch
PYTEST := $(VENV_PYTHON) -m pytest
SAMPLE := Who is older, Claude Monet or Camille Pissarro?

.PHONY: help python run stop test evaluate lint lint-installed format test-compose test-e2e test-k8s test-ray test-operations test-web web setup-dev lock clean

help: ## Say what there is
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1|\2/' | column -t -s '|' 2>/dev/null \
	  || grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST)

python:
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or 3.12 is needed and none was found; install one, or name it: make PYTHON=/path/to/python3.11 run" >&2; exit 1; }

run: python ## Set up, start everything, ask a sample question, leave it running
	@$(PYTHON) requirements/install.py engine-cpu
	@$(PARALLELSEARCH) up
	@$(PARALLELSEARCH) ask "$(SAMPLE)" --deadline-s 300
	@echo
	@echo "ParallelSearch is running. Ask it:  .venv/bin/parallelsearch ask \"…\"     Stop it:  make stop"
	@$(PARALLELSEARCH) status

stop: ## Stop everything, leave no process behind
	@if [ -x $(VENV_PYTHON) ]; then $(PARALLELSEARCH) down; else echo "Nothing was set up, so nothing runs."; fi

setup-dev: python
	@$(PYTHON) requirements/install.py dev

test: setup-dev ## Lint, types, import contracts, unit and integration tests
	@$(MAKE) lint-installed
	@$(VENV_PYTHON) -m compileall -q packages/*/src services/*/src # here once, not in each of the hundreds of processes of the tests
	@$(PYTEST) -n 3 --dist loadfile # three on two cores: many tests wait more than they work

test-e2e: setup-dev ## Start the whole platform with the real policy on ports of its own, and try it
	@$(PYTEST) -m e2e tests/e2e/test_make_run.py --timeout 900

test-operations: setup-dev ## Rolling restarts, dashboards over a live Prometheus, documents and the policy's engine, end to end (20 minutes)
	@$(PYTEST) -m e2e tests/e2e tests/policy tests/retriever --ignore tests/e2e/test_make_run.py --timeout 900

test-compose: setup-dev ## Build the images and run the platform in containers: up, load, crashes, down (needs a Docker engine)
	@$(PYTEST) -m compose tests/compose

test-k8s: setup-dev ## Manifests against schemas and a real API server (needs kubectl, etcd and kube-apiserver, or PARALLELSEARCH_KUBECONFIG)
	@$(PYTEST) -m "k8s or not k8s" tests/deploy/test_kubernetes.py tests/deploy/test_manifest_names.py tests/deploy/test_api_server.py tests/trainer/test_kubernetes.py tests/trainer/test_kubernetes_cluster.py

test-ray: setup-dev ## Training runs on a real one-node Ray of its own, in an environment of its own (fetched once)
	@$(PYTHON) requirements/apart.py ray >/dev/null
	@$(PYTEST) -m ray tests/trainer/test_ray_cluster.py

evaluate: ## Measure the running platform: 30 of each of the demo's sets, parallel and sequential (some minutes on a CPU)
	@$(PARALLELSEARCH) eval demo demo-graphs --limit 30 --corpus "the demo corpus" --out .state/evaluation/$$(date +%Y-%m-%d-%H%M%S)
web: services/gateway/web/node_modules ## Build the web page into the gateway's package (needs node)
	@cd services/gateway/web && npm run build

services/gateway/web/node_modules: services/gateway/web/package-lock.json
	@cd services/gateway/web && npm ci && touch node_modules

test-web: setup-dev services/gateway/web/node_modules ## Look at the web page with Chromium (needs node; apt-get install chromium)
	@$(PYTEST) -m web tests/web --timeout 90

lint: setup-dev ## Style, types, import contracts
	@$(MAKE) lint-installed

lint-installed:
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m ruff format --check .
	@$(VENV_PYTHON) -m mypy packages services
	@.venv/bin/lint-imports

format: setup-dev ## Put the code into the house style
	@$(VENV_PYTHON) -m ruff check --fix .
	@$(VENV_PYTHON) -m ruff format .

lock: setup-dev ## Renew the pinned lists in requirements/
	@requirements/lock

clean: stop ## Stop, then remove environment, state and caches of the tools
	@rm -rf .venv .state .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
