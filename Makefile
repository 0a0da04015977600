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

-include developer.mk

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
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --build-constraints requirements.txt -r requirements.txt -r pyproject.toml
	@test ! -d tuneline || VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps --no-build-isolation --editable .
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

.PHONY: clean
clean: ## Remove .venv and tool caches; keep data, models and DVC's cache
	@rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
