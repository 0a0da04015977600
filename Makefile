# The commands for people and CI. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash

PYTHON ?= python3
VENV := .venv
UV := $(VENV)/bin/uv
UV_VERSION := 0.13.8
INSTALLED := $(VENV)/.installed
WORKERS ?= auto

# Stages are started as `python` and `accelerate`: always those of .venv.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# uv does not read pip's settings, so a folder of wheels configured for pip (for example a CPU build of torch) is passed to it.
comma := ,
space := $() $()
export UV_FIND_LINKS ?= $(subst $(space),$(comma),$(strip $(PIP_FIND_LINKS)))
# Python compiles a module when it is first imported. Where it may not write the result, every stage would compile thousands of modules
# on every run, so the set-up compiles them.
export UV_COMPILE_BYTECODE ?= $(if $(PYTHONDONTWRITEBYTECODE),1,0)
export DO_NOT_TRACK := 1
# DVC unpickles what is in its site cache, and its default is a folder that every user of the machine may write to. The set-up makes this
# one, because DVC would make it writable for everyone, and names it in DVC's local settings, for a dvc that make does not start.
SITE_CACHE := $(CURDIR)/.dvc/tmp/site
export DVC_SITE_CACHE_DIR ?= $(SITE_CACHE)
# DVC asks for the name of the user; in many containers the system has none.
export USER ?= $(shell id -un 2>/dev/null || id -u)

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(INSTALLED) ## Create .venv and install the pinned requirements
	@grep -qsF "site_cache_dir = $(SITE_CACHE)" .dvc/config.local || $(VENV)/bin/python -m tuneline.core.repository.dvc

$(INSTALLED): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Tuneline needs Python 3.11 to 3.13; this is " + sys.version.split()[0] + ". Try make PYTHON=python3.12 ..." if not (3, 11) <= sys.version_info[:2] <= (3, 13) else 0)'
	@$(PYTHON) -m venv $(VENV) || { echo "Python cannot create a virtual environment. On Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --build-constraints requirements.txt -r requirements.txt
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: run
run: setup ## Run the pipeline (dvc repro) and print the result
	@python -m tuneline.core.repository.source_versions
	@dvc repro
	@tuneline show

.PHONY: compare
compare: setup ## Compare the working tree with a commit: make compare REF=main
	@test -n "$(REF)" || { echo "REF is missing. Give a commit to compare with: make compare REF=main" >&2; exit 1; }
	@dvc metrics diff "$(REF)"
	@dvc params diff "$(REF)"
	@dvc plots diff "$(REF)" --out reports/plots
	@tuneline show --against "$(REF)"

.PHONY: schedule
schedule: setup ## Start Prefect server, worker and deployments on this machine
	@python -m tuneline.operations.server.schedule $(ARGS)

# In the order of tests/conftest.py, longest first: xdist would sort the modules by their numbers of tests.
.PHONY: test
test: setup ## Run the tests, one worker per core
	@python -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder $(ARGS)

.PHONY: test-gpu
test-gpu: setup ## Run the tests that need a GPU; without one, say which were skipped
	@python -m pytest -m gpu -n 0 -rs $(ARGS)

.PHONY: parameters
parameters: setup ## Write docs/parameters.md and conf/base.yaml from the fields
	@python -m tests.docs.parameters_page

.PHONY: lint
lint: setup ## Check style and types
	@ruff check .
	@ruff format --check .
	@mypy

.PHONY: format
format: setup ## Format the code and fix what ruff can fix
	@ruff check --fix --quiet . || true
	@ruff format .

# torch has no hash: its build is the user's choice, and each build has another. uv verifies the hashes that there are.
.PHONY: lock
lock: setup ## Compile requirements.txt from pyproject.toml
	@$(UV) pip compile --quiet --generate-hashes --universal --python-version 3.11 --extra dev --extra ray --extra s3 --no-header --no-emit-index-url --no-emit-find-links pyproject.toml -o requirements.txt $(ARGS)
	@sed -i -e '/^# The following packages were excluded/,$$d' -e '/^torch==/,/^ *#/{/--hash=/d; s/^\(torch==[0-9.]*\).*/\1/}' requirements.txt

.PHONY: bench
bench: setup ## Measure against the usual alternatives (minutes)
	@for path in benchmarks/[a-z]*.py benchmarks/*/__main__.py; do name=$$(basename $${path%/__main__.py} .py); echo "== $$name"; python -m benchmarks.$$name || exit 1; done

.PHONY: bench-gpu
bench-gpu: setup ## Measure training on a GPU against the usual alternatives
	@python -m benchmarks.training --device cuda --bf16 1 --layers 12 --hidden 768 $(ARGS)

.PHONY: clean
clean: ## Remove .venv and tool caches; keep data, models and DVC's cache
	@rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
