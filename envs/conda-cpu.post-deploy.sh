#!/bin/sh
# Run by Snakemake in the checkout, inside the environment that conda-cpu.yaml has just made.
set -eu
sh envs/install.sh base python
sh envs/install.sh verl python
