"""Snakemake's executor plugin `slurm-patient`; README.md describes it.

Snakemake imports the packages of all executor plugins, also those that a run does not use.
"""

from importlib.util import find_spec

if find_spec("snakemake_executor_plugin_slurm"):
    from snakemake_executor_plugin_slurm import common_settings as common_settings

    from snakemake_executor_plugin_slurm_patient.executor import Executor as Executor
    from snakemake_executor_plugin_slurm_patient.executor import (
        ExecutorSettings as ExecutorSettings,
    )
else:
    from snakemake_executor_plugin_slurm_patient.missing import (  # type: ignore[assignment]
        Executor as Executor,
    )
    from snakemake_executor_plugin_slurm_patient.missing import common_settings as common_settings
