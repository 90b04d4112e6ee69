"""What Snakemake sees of the plugin."""

import dataclasses
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import snakemake_executor_plugin_slurm as slurm
from snakemake.cli import parse_args
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from rspo.pipeline.provenance import provenance_path
from rspo.slurm.profile import EXECUTORS
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
    fields = dataclasses.fields(slurm.ExecutorSettings)
    inherited = {field.name.replace("_", "-") for field in fields}
    assert names == inherited | {"finished-suffix", "unnoticed-end-timeout"}
    assert plugin.common_settings == slurm.common_settings


def test_where_the_slurm_plugin_is_missing_only_its_own_use_fails() -> None:
    """Snakemake imports every executor plugin in each run."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SLURM], cwd=ROOT, capture_output=True, text=True
    )
    last = done.stderr.splitlines()[-1]
    assert last.endswith("slurm-patient needs the package snakemake-executor-plugin-slurm")


def test_the_shipped_profile_sets_the_same_for_the_slurm_plugin() -> None:
    """So that changing its line `executor:` is enough."""
    _, arguments = parse_args(["--profile", str(ROOT / "slurm"), "all"])
    plugins = ExecutorPluginRegistry()
    settings = (plugins.get_plugin(name).get_settings(arguments) for name in EXECUTORS)
    ours, theirs = (dataclasses.asdict(one) for one in settings)
    assert ours.pop("finished_suffix") == provenance_path(Path("x")).name.removeprefix("x")
    del ours["unnoticed_end_timeout"]
    assert ours == theirs
    assert ours["requeue"]


def test_the_readme_names_the_versions_that_it_was_tested_with() -> None:
    """With a new version of one of them: read what README.md says that this plugin relies on, run
    the tests in this folder with `-m ""`, and change the version there."""
    readme = (ROOT / "snakemake_executor_plugin_slurm_patient" / "README.md").read_text()
    for package in ("snakemake", "snakemake-executor-plugin-slurm"):
        assert f"`{package}` {version(package)}" in readme
