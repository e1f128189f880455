# A machine needs Python 3.11 to 3.15 and make. Everything else is installed into .venv, at the pinned versions.

.DEFAULT_GOAL := help
.PHONY: help demo live test lint style mypy pyright kernels pytest soak bench docs frontier-messages wheel clean
.DELETE_ON_ERROR:

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --constraint constraints.txt

# The first interpreter of a supported version that can make environments (on Debian ensurepip is in python3-venv).
PYTHON = $(shell for each in python3 python3.15 python3.14 python3.13 python3.12 python3.11; do \
	$$each -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 15))' 2>/dev/null \
	&& { echo $$each; break; }; done)

# The last year of a log that is part of the project.
LOG := data/scoop-extras.tsv.gz
YEAR := --from 2025-08-22 --to 2026-08-22
THEN := 2026-08-22

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/ready ## replay a year of real changes under twelve policies, then show the next pages to visit and why
	@rm -rf out && mkdir out
	$(BIN)/streamsched replay $(LOG) $(YEAR) --budget 0.05 \
		--report out/report.html --json out/replay.json --save-state out/state
	@echo
	$(BIN)/streamsched next --state out/state --now $(THEN) -k 10 --peek | tee out/next.txt
	@echo
	$(BIN)/streamsched explain --state out/state --now $(THEN) "$$(head -n 1 out/next.txt)"

live: .venv/ready-live ## a year of real changes in a minute: Kafka, the service, and a crawler beside oldest first
	@$(BIN)/python -m examples.live $(WITH)

test: .venv/ready ## run all checks of CI: style, imports and types while kernels compile, then tests
	@$(MAKE) --no-print-directory --jobs style mypy pyright pytest

lint: style mypy pyright ## check style, types and the direction of imports

style: .venv/ready-dev
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/lint-imports --no-logo

mypy: .venv/ready-dev
	$(BIN)/mypy

pyright: .venv/ready-dev
	$(BIN)/pyright --pythonpath $(BIN)/python

# Before the tests, whose workers would wait for each other's kernels; one process, beside which there is room for others.
kernels: .venv/ready
	NUMBA_CACHE_DIR=$(CURDIR)/build/kernels $(BIN)/python -m streamsched warm

# Hundreds of processes import the project: where images forbid it, bytecode is kept all the same, for this target only.
pytest: export PYTHONDONTWRITEBYTECODE =
pytest: .venv/ready-dev kernels
	$(BIN)/python -m pytest -n auto --maxprocesses=4 --dist loadfile --no-loadscope-reorder --durations=20

docs: .venv/ready-dev ## make docs/settings.md and the tables of fields out of the code, and the site out/docs/site
	$(BIN)/python -m tests.support.settings_page
	$(BIN)/python -m tests.support.field_tables
	$(BIN)/python -m tests.support.site

frontier-messages: .venv/ready-dev ## make the descriptors of the url-frontier API out of its proto files
	cd streamsched/frontier && $(CURDIR)/$(BIN)/python -m grpc_tools.protoc -I. --descriptor_set_out=messages.binpb \
		urlfrontier.proto health.proto

soak: .venv/ready-dev ## run what make test shortens, attacks first of all: 90 minutes at most; WITH='--seed 7 --json'
	@$(BIN)/python -m tests.soak $(WITH)

bench: .venv/ready-dev ## measure every figure of docs/benchmarks.md, each beside a rival, and write it and the README
	$(BIN)/python -m benchmarks --write $(WITH)

wheel: .venv/ready-dev ## build a wheel into dist/ that holds the kernels as machine code, for this Python and kind of processor
	@$(BIN)/python deploy/build_wheel.py dist

clean: ## remove everything that make and the tools created, .venv included
	rm -rf .venv build dist out *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/pip:
	@test -n "$(PYTHON)" || { echo 'streamsched: found no Python 3.11 to 3.15 with venv and pip among python3 and python3.11' \
		'to python3.15. Install one (on Debian and Ubuntu also python3-venv), or name it: make PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/ready: .venv/bin/pip pyproject.toml constraints.txt
	@echo 'Installing streamsched and its dependencies into .venv ...'
	@$(INSTALL) setuptools
	@$(INSTALL) --no-build-isolation --editable .
	@touch $@

.venv/ready-live: .venv/ready
	@echo 'Installing the service and its client into .venv ...'
	@$(INSTALL) --no-build-isolation --editable '.[client,http]'
	@touch $@

.venv/ready-dev: .venv/ready
	@echo 'Installing the tools for tests and checks into .venv ...'
	@$(INSTALL) --no-build-isolation --editable '.[dev,bench]'
	@touch $@
