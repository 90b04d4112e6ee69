"""Snakemake's logger plugin `rspo`. Snakemake finds plugins by the name of their package.

Snakemake imports plugins before it parses its command line.
"""

from rspo.slurm.snakemake_patches import accept_dotted_keys
from rspo.status.log_handler import LogHandler as LogHandler

accept_dotted_keys()
