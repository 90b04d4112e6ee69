"""Takes the place of the executor where Snakemake's SLURM plugin is not installed."""

from typing import Any, NoReturn

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import AbstractExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

common_settings = CommonSettings(
    non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False
)


class Executor(AbstractExecutor):
    def __new__(cls, *_: Any) -> NoReturn:
        raise WorkflowError(
            "executor slurm-patient needs the package snakemake-executor-plugin-slurm"
        )
