# Every target makes or reuses .venv by itself. `make PYTHON=python3.12 ...` chooses the interpreter when .venv is
# made; `make clean` comes before another choice.
# pip reads its own environment variables, so PIP_EXTRA_INDEX_URL and the like work here as always,
# for example to take a CPU build of torch where the default one is for CUDA.

PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
REQUIREMENTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint unit wheel-check docs pages links bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.installed  ## find the hidden edges of one network, and draw them in demo.png
	$(BIN)/python benchmarks/demo.py --output demo.png

test: lint unit wheel-check  ## all that CI runs

lint: .venv/.installed-dev  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: .venv/.installed-dev  ## tests and docstring examples, with coverage
	$(BIN)/pytest -m "" --cov --cov-fail-under=95

wheel-check: .venv/.installed-dev  ## build wheel and sdist, and use the wheel in an empty environment
	$(BIN)/python .ci/check_wheel.py

docs: .venv/.installed-docs  ## HTML documentation in docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

pages: .venv/.installed-docs  ## run the code on every page, and compare what it prints
	$(BIN)/python docs/run_pages.py

links: | .venv/bin/python  ## check the links of the pages that `make docs` built; needs no network
	$(BIN)/python docs/check_links.py

bench: .venv/.installed-dev  ## the quick version of every benchmark
	$(BIN)/python benchmarks/run_all.py --quick

clean:  ## remove .venv and all that the other targets made
	rm -rf .venv build dist demo.png
	rm -rf docs/_build docs/auto_examples docs/generated docs/sg_execution_times.rst
	rm -rf .coverage .mypy_cache .pytest_cache .ruff_cache
	find benchmarks docs sklearn_graphid tests -type d -name __pycache__ -prune -exec rm -rf {} +

# One environment in layers: what users get, then the tools of `test` or of `docs` on top of it.

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "sklearn_graphid needs Python 3.11 or newer, but $(PYTHON) is: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	$(PYTHON) -m venv .venv

# torch comes first and alone, so that nothing else decides which build of it is taken.
.venv/.installed: $(REQUIREMENTS) | .venv/bin/python
	$(PIP_INSTALL) torch
	$(PIP_INSTALL) -e ".[pandas,plot,progress]"
	touch $@

.venv/.installed-dev: .venv/.installed
	$(PIP_INSTALL) -e ".[dev]"
	touch $@

.venv/.installed-docs: .venv/.installed
	$(PIP_INSTALL) -e ".[docs]"
	touch $@
