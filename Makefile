# What a user types. Nothing in this file decides what is installed: envs/setup.sh does.
#
#   PYTHON=...       the Python to build .venv with (default: the first of python3, python3.12,
#                    python3.11 that runs and is 3.11 or 3.12)
#   TORCH_INDEX=...  take PyTorch from this package index instead of the usual one
#   FLASH_ATTN=...   make setup-gpu: a wheel of flash-attn, or none (default: compile it)
#   ARGS=...         passed on to snakemake (make demo) or pytest (make test)

PYTHON ?=
TORCH_INDEX ?=
FLASH_ATTN ?=
ARGS ?=
LOCK_PYTHONS ?= python3.11 python3.12

export PYTHON TORCH_INDEX FLASH_ATTN
BIN := .venv/bin
WITH_VENV := PATH="$(CURDIR)/$(BIN):$$PATH"

.DEFAULT_GOAL := help
.PHONY: help setup setup-verl setup-gpu demo test check lock clean-env

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv with all that the tiny paper needs (CPU is enough)
	@sh envs/setup.sh base

setup-verl: setup ## add verl, Ray, vLLM for CPU, the SLURM plugin and the test tools
	@sh envs/setup.sh verl

setup-gpu: ## make .venv for NVIDIA GPUs instead: Linux x86-64, Python 3.12, CUDA 13, verl, vLLM
	@sh envs/setup.sh gpu

demo: setup ## the tiny paper from nothing: every cell, table and figure
	@$(WITH_VENV) $(BIN)/snakemake all $(ARGS)

test: setup-verl ## run the tests
	@$(WITH_VENV) $(BIN)/pytest $(ARGS)

check: setup-verl ## check formatting, lint, types, imports between modules and dependencies
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/snakefmt --check Snakefile workflow
	@$(BIN)/mypy rspo
	@$(BIN)/lint-imports
	@$(BIN)/deptry .

lock: ## resolve envs/*.lock anew (needs Python 3.11 and 3.12; see LOCK_PYTHONS)
	@$(firstword $(LOCK_PYTHONS)) envs/lock.py $(LOCK_PYTHONS)
	@$(lastword $(LOCK_PYTHONS)) envs/lock_gpu.py $(lastword $(LOCK_PYTHONS))

clean-env: ## remove .venv
	rm -rf .venv
