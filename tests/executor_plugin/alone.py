"""The plugin in a folder of its own, where this checkout cannot be imported."""

import shutil
from pathlib import Path

from tests.support import ROOT

PLUGIN = "snakemake_executor_plugin_slurm_patient"
# Python runs it at its start, after it has added the checkout, which `pip install -e` registered.
SITE = f"import sys\nsys.path[:] = [path for path in sys.path if path != {str(ROOT)!r}]\n"


def install(folder: Path) -> dict[str, str]:
    """Copy the plugin; returns the variables with which Python finds it."""
    shutil.copytree(ROOT / PLUGIN, folder / PLUGIN)
    (folder / "sitecustomize.py").write_text(SITE)
    return {"PYTHONPATH": str(folder)}
