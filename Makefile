# The two commands that matter: `make demo` and `make test`. Everything they need, they set up.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Compiled kernels stay inside the checkout, so that `make clean` leaves nothing behind.
export HETUNE_CACHE ?= $(CURDIR)/build/cache
# Where it is set, as in many images of containers, every process that tests start compiles the byte
# code of torch and PyG anew. `make clean` removes what is written.
unexport PYTHONDONTWRITEBYTECODE
# Three at a time, also on two cores: some wait for processes and clocks. PYTEST_ARGS= runs them
# one by one.
PYTEST_ARGS ?= -n 3 --dist worksteal

.PHONY: help demo test test-full lint audit bench gpu-check clean install

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(STAMP) compiler  ## set up, compile the layers' variants, serve them, send a graph
	$(BIN)/hetune build --widths 64
	$(BIN)/hetune calibrate
	$(BIN)/python -m hetune.clients.demo

test: compiler  ## lint, types, and all tests that this machine can run
	@$(MAKE) --no-print-directory --jobs=2 lint tests

# Side by side: mypy has one core to itself.
.PHONY: tests
tests: $(STAMP) compiler
	$(BIN)/pytest $(PYTEST_ARGS)

test-full: export HETUNE_FULL_MATRIX = 1
test-full: test  ## the same, with every variant at every width, and whole benchmarks: much longer

lint: $(STAMP)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p hetune

audit: $(STAMP)  ## known vulnerabilities of what is installed
	@.ci/audit $(BIN)/pip-audit

# What is committed under benchmarks/results stays; one that fails does not keep the others waiting.
bench: $(STAMP) compiler  ## every benchmark for CPUs, one after the other; results in build/bench
	@mkdir -p build/bench; failed=; \
	for script in $(filter-out benchmarks/gpu_% benchmarks/figures.py,$(wildcard benchmarks/[a-z]*.py)); do \
	    name=$$(basename "$$script" .py); echo "== $$script"; \
	    $(BIN)/python "$$script" --out "build/bench/$$name.json" || failed="$$failed $$name"; \
	done; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

# Where there is a GPU there may be no network: no environment of our own, the checkout as it is.
gpu-check:  ## check and time all variants on a GPU; again, until it says that no unit is left
	PYTHONPATH=src $(PYTHON) benchmarks/gpu_check.py $(GPU_CHECK_ARGS)

clean:  ## remove the virtual environment, compiled kernels and caches
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

install: $(STAMP)  ## only the virtual environment

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "hetune needs Python 3.11 or later, and '$(PYTHON)' is none." >&2; \
	    echo "Install one (Debian: apt-get install python3 python3-venv), and name it if it is not" >&2; \
	    echo "the default: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
	    echo "'$(PYTHON)' cannot make virtual environments: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile --constraint constraints.txt --editable '.[dev]'
	@# Else each of the processes that start at once would compile this byte code.
	$(BIN)/python -c 'import fastapi, sqlalchemy, torch_geometric.nn, xgboost'
	@touch $@

.PHONY: compiler
compiler:
	@for name in "$${HETUNE_CXX:-}" g++ clang++ c++; do \
	    if [ -n "$$name" ] && command -v $${name%% *} >/dev/null; then exit 0; fi; \
	done; \
	echo "No C++ compiler: apt-get install g++, or set HETUNE_CXX to a C++20 compiler." >&2; exit 1
