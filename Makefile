SHELL := /bin/bash
PYTHON ?= python3
# through python -m, so that a moved checkout does not depend on the paths inside .venv/bin
VENV := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup run test bench lint clean

help: ## print the targets
	@sed -n 's/^\([a-z]*\): .*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

setup: ## make .venv, install the project and its tools, look for Java 17+
	@PYTHON="$(PYTHON)" tools/setup.sh

run: setup ## replay examples/portfolio.sql
	.venv/bin/deadband run examples/portfolio.sql

test: setup ## run the tests
	$(VENV) -m pytest -q

bench: setup ## run every benchmark, quickly
	$(VENV) -m benchmarks all --quick

lint: setup ## ruff check, ruff format --check, mypy
	$(VENV) -m ruff check .
	$(VENV) -m ruff format --check .
	@tools/mypy.sh

clean: ## remove what builds and runs leave behind; keeps .venv
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
