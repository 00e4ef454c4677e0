# Everything starts here: `make help`.
.DEFAULT_GOAL := help
.PHONY: help setup setup-torch run demo stack-up stack-demo stack-down test check format generate lock bench soak eval clean

PY := .venv/bin/python
FF := .venv/bin/firstfault
PYTEST := $(PY) -m pytest
# Two workers suit two cores; files stay whole so that a server started for one is shared by its tests.
SPREAD ?= -n 2 --dist loadfile
TESTS ?= tests
# Recorded data is no part of this repository; where it lies beside the checkout it is found.
EVAL_DIR ?= $(wildcard ../shared/eval)
EVAL_DATA ?= $(EVAL_DIR)/../data
EVAL_TAXONOMY ?= $(EVAL_DIR)/../design/taxonomy.yaml
EVAL_SCRIPTS ?= $(basename $(notdir $(sort $(wildcard $(EVAL_DIR)/score_*.py))))
# Folder of the distributed service on this machine.
STACK ?= .stack
# Soak tests name their own limits; this one only ends what hangs.
SOAK_TIMEOUT ?= 7200

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: ## .venv with the server and the SDK (needs Python 3.11 or newer, nothing else)
	@deploy/native/setup.sh

setup-torch: setup ## .venv-torch with CPU torch, for the torch fault jobs
	@$(PY) -m tests.faults.torch_env

run: setup ## the demo on a service that stays up
	@$(FF) demo --stay

demo: setup ## a real two-process job fails on one rank and becomes one incident
	@$(FF) demo

stack-up: setup ## the distributed service on real servers, below .stack (STACK=folder); returns when everything answers
	@$(PY) -m deploy.native.stack --folder "$(STACK)" up

stack-demo: setup ## the fault jobs through that service: each becomes the incident it must be
	@$(PY) -m deploy.native.stack --folder "$(STACK)" status >/dev/null || { echo "make stack-demo: run make stack-up first" >&2; exit 2; }
	@FIRSTFAULT_STACK_FOLDER="$(abspath $(STACK))" $(PYTEST) -q tests/integration/stack -k becomes_the_same_incident

stack-down: setup ## end it and remove what it kept
	@$(PY) -m deploy.native.stack --folder "$(STACK)" down

test: setup ## every test except the long versions
	@$(PYTEST) $(SPREAD) -m "not soak and not bench" $(TESTS)

check: setup ## formatting, lint, types, layers, generated files
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@$(PY) proto/generate.py --check
	@$(PY) proto/compile.py --check
	@$(PY) docs/generate.py --check

format: setup ## rewrite formatting and generated files
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .
	@$(PY) proto/generate.py
	@$(PY) proto/compile.py
	@$(PY) docs/generate.py

lock: setup ## rewrite requirements/*.txt from requirements/*.in (UPGRADE=1 takes newer versions)
	@deploy/native/lock.sh $(if $(UPGRADE),--upgrade)

bench: setup ## figures of this machine
	@$(PYTEST) -m bench tests/bench -s

soak: setup ## the long versions: full rounds and case counts
	@FIRSTFAULT_SOAK=1 $(PYTEST) -m soak --timeout $(SOAK_TIMEOUT) $(TESTS)

eval: setup ## score the tools on recorded data (EVAL_DIR: folder with the scoring scripts; beside it data and taxonomy)
	@test -d "$(EVAL_DIR)" || { echo "make eval: set EVAL_DIR to the folder with the scoring scripts" >&2; exit 2; }
	@for script in $(EVAL_SCRIPTS); do \
		echo "== $$script"; PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) "$(EVAL_DIR)/$$script.py" || exit 1; done
	@echo "== calibration"; $(PY) -m tests.eval.calibration "$(EVAL_DATA)" "$(EVAL_TAXONOMY)"

clean: ## remove environments, caches and builds of this checkout
	@rm -rf .venv .venv-torch .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
