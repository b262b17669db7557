# `make` lists the targets. The first call creates .venv and installs everything; later calls reuse it.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?= algo=tqc env=parking-v0
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist worksteal  # compile the tests and rlher once

.DEFAULT_GOAL := help
.PHONY: help train test test-slow lint type docs format wheel release-check clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 11

train: .venv/ready  ## train an agent: make train ARGS="algo=ddpg env=FetchReach-v4"
	$(BIN)/rlher train $(ARGS)

test: .venv/ready-dev  ## run the fast tests
	$(PYTEST) -m "not slow"

test-slow: .venv/ready-dev  ## run the slow tests: kill/resume stress, databases, browser, fuzzing, learning
	$(PYTEST) --dist loadfile --no-loadscope-reorder -m slow

lint: .venv/ready-dev  ## check style, formatting and the import rule
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

type: .venv/ready-dev  ## check types
	$(BIN)/mypy

docs: .venv/ready-dev  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: .venv/ready-dev  ## fix style and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: .venv/ready-dev  ## build dist/*.whl
	$(BIN)/python -m build --wheel

release-check: .venv/ready-dev  ## build the release, install it in an empty environment and use it there
	scripts/release_check.sh

clean:  ## remove the virtual environment and all build outputs
	rm -rf .venv build dist site *.egg-info

# make compares these files' times with the requirements, so that a second call installs nothing.
.venv/ready: pyproject.toml constraints.txt
	@echo "installing into .venv: a minute or two, 1.7 GB"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

.venv/ready-dev: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable . --group dev
	touch $@
