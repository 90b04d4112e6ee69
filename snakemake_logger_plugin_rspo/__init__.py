"""The log handler `rspo`, under the name by which Snakemake finds it (`logger: rspo`)."""

from rspo.snakemake.progress import LogHandler

__all__ = ["LogHandler"]
