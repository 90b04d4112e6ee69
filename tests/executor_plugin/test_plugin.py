"""What Snakemake sees of the plugin."""

import subprocess
import sys
from dataclasses import fields

import pytest
import snakemake_executor_plugin_slurm as slurm
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from tests.support import ROOT

# Hides the SLURM plugin, as where it is not installed.
WITHOUT_SLURM = """\
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: (
    None if name == "snakemake_executor_plugin_slurm" else find(name, *more)
)
from snakemake_executor_plugin_slurm_patient import Executor, common_settings
assert common_settings.non_local_exec
Executor(None, None)
"""


def test_it_has_the_settings_of_the_slurm_plugin_and_its_own() -> None:
    plugin = ExecutorPluginRegistry().get_plugin("slurm-patient")
    names = {info["cliarg"].removeprefix("--slurm-patient-") for info in plugin.get_settings_info()}
    inherited = {field.name.replace("_", "-") for field in fields(slurm.ExecutorSettings)}
    assert names == inherited | {"heartbeat-timeout"}
    assert plugin.common_settings == slurm.common_settings


def test_where_the_slurm_plugin_is_missing_only_its_own_use_fails() -> None:
    """Snakemake imports every executor plugin in each run."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SLURM], cwd=ROOT, capture_output=True, text=True
    )
    last = done.stderr.splitlines()[-1]
    assert last.endswith("slurm-patient needs the package snakemake-executor-plugin-slurm")


@pytest.mark.parametrize("first", ["snakemake_executor_plugin_slurm_patient", "rspo.cli"])
def test_importing_it_does_not_import_rspo(first: str) -> None:
    words = f"import sys, {first}; sys.exit('rspo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], cwd=ROOT)
    assert done.returncode == (first == "rspo.cli")
