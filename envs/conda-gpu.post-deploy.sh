#!/bin/sh
# Snakemake runs this in the checkout, inside the environment that it created from conda-gpu.yaml.
exec sh envs/install.sh gpu python
