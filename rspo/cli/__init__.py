"""The `rspo` command. Every stage of the experiments is one subcommand; none needs Snakemake.

Typer parses the command line. A command imports what it needs when it runs, so that `rspo --help`
loads no numpy, and scoring no PyTorch.
"""

import os

# Hundreds of short commands run per paper. Pydantic would search every installed package for
# plugins of its own in each of them.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

from rspo.cli.run import main

__all__ = ["main"]
