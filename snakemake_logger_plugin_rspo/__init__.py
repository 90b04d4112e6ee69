"""Snakemake's logger plugin `rspo`. Snakemake finds plugins by the name of their package.

Snakemake imports plugins before it parses its command line.
"""

from rspo.slurm.snakemake_patches import read_config_like_set
from rspo.status.log_handler import LogHandler as LogHandler

read_config_like_set()
