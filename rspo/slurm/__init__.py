"""Checks of the SLURM cluster and of slurm/config.yaml before a run: `rspo doctor`.

What runs inside a SLURM job is in `snakemake_executor_plugin_slurm_patient`.
"""
