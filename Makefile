# The front door. Every target sets up what it needs, and is quick when that is there.

ARGS ?=
TOPIC ?=
WORKERS ?= auto
VENV := .venv/bin
# Stopping and cleaning must work before (and after) there is a .venv.
ANY_PYTHON = $$(test -x $(VENV)/python && echo $(VENV)/python || echo python3)

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak lint bench server stop clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

setup:  ## install qops and its development tools into .venv
	@bash dev/setup.sh

demo: setup  ## show qops at work on a throwaway MySQL server
	@$(VENV)/python -m dev.demo

test: setup  ## run the tests on a throwaway MySQL server (ARGS="-k archive": pytest's options)
	@$(VENV)/python -m dev.server start
	$(VENV)/python -m pytest -n $(WORKERS) $(ARGS)

soak: setup  ## test concurrency and crashes for half an hour (ARGS="--minutes 5")
	@$(VENV)/python -m dev.server start
	$(VENV)/python -m dev.soak $(ARGS)

lint: setup  ## check style, types and the direction of imports
	$(VENV)/ruff check
	$(VENV)/ruff format --check
	$(VENV)/mypy
	$(VENV)/lint-imports

bench: setup  ## measure (TOPIC="archive feed": these of archive, doctor, feed, indexes, plans, requeue; ARGS="--write docs/benchmarks.md")
	@$(VENV)/python -m dev.bench $(ARGS) $(TOPIC)

server: setup  ## start the throwaway MySQL server and print its URL
	@$(VENV)/python -m dev.server start

stop:  ## stop the throwaway servers; their data stay
	@$(ANY_PYTHON) -m dev.server stop --all

clean: stop  ## stop the servers and delete all that the targets made
	@$(ANY_PYTHON) -m dev.server stop --all --remove
	rm -rf .venv .dev build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
