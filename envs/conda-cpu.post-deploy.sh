#!/bin/sh
# Snakemake runs this in the checkout, inside the environment that it created from conda-cpu.yaml.
exec sh envs/install.sh verl python
