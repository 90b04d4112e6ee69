"""Checks of the SLURM cluster and of slurm/config.yaml before a run: `rspo doctor`.

The code that runs inside SLURM jobs is in `snakemake_executor_plugin_slurm_patient`.
"""
