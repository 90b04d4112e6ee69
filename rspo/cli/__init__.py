"""The `rspo` command. Every stage of the experiments is one subcommand; none needs Snakemake.

Typer parses the command line. The docstring of a command is its help text. A command imports what
it needs when it runs, so that `rspo --help` does not load NumPy, and `rspo score` does not load
PyTorch.
"""

import os

# An experiment runs hundreds of short commands. In each of them, Pydantic would search every
# installed package for plugins. It reads this variable when it is imported.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

from rspo.cli.run import main

__all__ = ["main"]
