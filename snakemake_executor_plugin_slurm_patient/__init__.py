"""Snakemake's executor plugin `slurm-patient`; README.md describes it.

Snakemake imports the packages of all executor plugins in every run, whichever one it uses. So the
import of this package works without the SLURM plugin, and only the use of `slurm-patient` fails.
"""

from importlib.util import find_spec

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import AbstractExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

if find_spec("snakemake_executor_plugin_slurm"):
    from snakemake_executor_plugin_slurm import common_settings as common_settings

    from snakemake_executor_plugin_slurm_patient.executor import Executor as Executor
    from snakemake_executor_plugin_slurm_patient.executor import (
        ExecutorSettings as ExecutorSettings,
    )
else:
    common_settings = CommonSettings(
        non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False
    )

    class Executor(AbstractExecutor):  # type: ignore[no-redef]
        """Takes the place of the executor if the SLURM plugin is not installed."""

        def __new__(cls, *_: object) -> "Executor":
            raise WorkflowError("slurm-patient needs the package snakemake-executor-plugin-slurm")
