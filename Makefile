# `make train` and `make test` are all one needs; each makes .venv on first use and reuses it after.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?= algo=tqc env=parking-v0

.DEFAULT_GOAL := help
.PHONY: help train test lint type format wheel clean

help:  ## show this
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

train: .venv/ready  ## train an agent: make train ARGS="algo=ddpg env=FetchReach-v4"
	$(BIN)/rlher train $(ARGS)

test: .venv/ready-dev  ## run the tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: .venv/ready-dev  ## check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

type: .venv/ready-dev  ## check types
	$(BIN)/mypy

format: .venv/ready-dev  ## mend style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

wheel: .venv/ready-dev  ## build dist/*.whl
	$(BIN)/python -m build --wheel

clean:  ## remove the environment and everything built
	rm -rf .venv build dist *.egg-info

# The stamps are remade when the requirements change, so a second call installs nothing.
.venv/ready: pyproject.toml constraints.txt
	@echo "installing into .venv: a minute or two, 1.7 GB"
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

.venv/ready-dev: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@
