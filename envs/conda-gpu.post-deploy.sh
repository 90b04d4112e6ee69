#!/bin/sh
# Run by Snakemake in the checkout, inside the environment that conda-gpu.yaml has just made.
set -eu
sh envs/install.sh gpu python
