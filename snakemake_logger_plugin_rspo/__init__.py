"""Snakemake's logger plugin `rspo`. Snakemake finds plugins by the name of their package."""

from rspo.status.log_handler import LogHandler as LogHandler
