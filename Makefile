# Commands for users. envs/setup.sh decides what is installed.
#
#   PYTHON=...       create .venv with this Python, 3.11 or 3.12 (default: the first suitable one of
#                    python3, python3.12, python3.11)
#   TORCH_INDEX=...  install PyTorch from this package index, such as PyTorch's own for CPU
#   FLASH_ATTN=...   make setup-gpu: a wheel of flash-attn, or none (default: compile flash-attn)
#   WHEELS=...       install from a folder that envs/wheels.sh has filled, without a network
#   ARGS=...         further arguments for snakemake (demo), pytest (test, test-light, gpu-check),
#                    mkdocs build (docs) or uv lock (lock); stages of tests/long.py (test-long);
#                    versions such as trl-1.12.0 (test-trainers)

PYTHON ?=
TORCH_INDEX ?=
FLASH_ATTN ?=
WHEELS ?=
ARGS ?=

export PYTHON TORCH_INDEX FLASH_ATTN WHEELS
BIN := .venv/bin
WITH_VENV := PATH="$(CURDIR)/$(BIN):$$PATH"
# Name the next command, unless another target needs this one.
then = $(if $(filter $@,$(MAKECMDGOALS)),@echo "Next: $(1)")

.DEFAULT_GOAL := help
.PHONY: help setup setup-verl setup-gpu quick demo test test-light test-long test-trainers gpu-check \
	scoreboard check docs dist lock clean-env

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

setup: ## create .venv with what the tiny scale and test-light need, and Snakemake's SLURM plugin
	@sh envs/setup.sh base
	$(call then,make quick)

setup-verl: ## add verl, Ray, vLLM for CPU and the test tools
	@sh envs/setup.sh verl
	$(call then,source .venv/bin/activate)

setup-gpu: ## create .venv for NVIDIA GPUs: verl, vLLM and flash-attn on CUDA 13
	@sh envs/setup.sh gpu
	$(call then,make gpu-check)

quick: setup ## train RSPO, GRPO and policy gradient for a first look: about a minute on two idle cores
	@$(WITH_VENV) $(BIN)/snakemake reports/fig_quick.pdf results/quick/tables/quick.md $(ARGS) --config scale=quick
	@cat results/quick/tables/quick.md

demo: setup ## reproduce the paper at tiny scale: every cell, table and figure
	@$(WITH_VENV) $(BIN)/snakemake all $(ARGS)

test: setup-verl ## run the tests in as many processes as CPUs; ARGS="-n 0" for one
	@$(WITH_VENV) $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

test-light: setup ## run the tests that need neither verl nor vLLM: a few minutes
	@$(WITH_VENV) $(BIN)/pytest -m light -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

test-long: setup-verl ## run the tests that take hours, or some stages: ARGS="soak"; keep their results
	@$(WITH_VENV) $(BIN)/python -m tests.long $(ARGS)

test-trainers: setup-verl ## run the adapters in several versions of TRL and verl, from the package index
	@$(WITH_VENV) $(BIN)/python -m tests.trainers $(ARGS)

gpu-check: ## check this GPU node with a small training, after setup-gpu; ARGS="--device cpu" for a CPU
	@$(WITH_VENV) $(BIN)/pytest -q tests/gpu --confcutdir tests/gpu --device cuda $(ARGS)

scoreboard: setup-verl ## what the sources of trainers maximize; SOURCES=FOLDER has checkouts, ARGS="verl TRL" names some
	@$(WITH_VENV) $(BIN)/python -m benchmarks.scoreboard $(ARGS)

check: setup-verl ## check format, lint, types, imports between modules and dependencies
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/snakefmt --check Snakefile workflow
	@$(BIN)/mypy
	@$(BIN)/mypy --python-version 3.10 rspo/objectives rspo/estimators.py rspo/passk.py # work without the extras
	@$(BIN)/lint-imports
	@$(BIN)/deptry .
	@$(BIN)/python -m tests.plain_code

docs: ## build the documentation site into site/, in an environment of its own
	@sh envs/docs.sh $(ARGS)

dist: ## build the wheel and the source distribution into dist/, check and install both
	@sh envs/dist.sh

lock: setup ## update envs/lock/ to pyproject.toml; ARGS=--upgrade for the newest versions
	@sh envs/lock.sh $(ARGS)

clean-env: ## delete .venv, .venv-docs and .venv-dist
	rm -rf .venv .venv-docs .venv-dist
