# How this Snakemake runs the rules: with which software, as a dry run, on SLURM, or inside a SLURM job.

import gc
import os
import sys
from pathlib import Path

from rspo.report.published import remove_outdated_copies
from rspo.slurm.in_job import forward_stop_requests
from rspo.slurm.messages import say
from rspo.slurm.preflight import run_doctor
from rspo.slurm.snakemake_patches import (
    compare_settings_with_provenance,
    look_for_jobs_once_a_second,
    plan_jobs_behind_ancient_inputs,
    record_holder_of_locks,
    remove_locks_of_killed_runs,
    set_conda_environment,
    skip_scheduling,
)
from snakemake.exceptions import WorkflowError
from snakemake.settings.enums import Quietness
from snakemake.settings.types import DeploymentMethod

plan_jobs_behind_ancient_inputs()
compare_settings_with_provenance()
look_for_jobs_once_a_second()

software = workflow.deployment_settings.deployment_method
if DeploymentMethod.APPTAINER in software and experiment.nodes > 1:
    raise WorkflowError(
        "verl.nodes above 1 starts processes with srun, which an image does not have: "
        "run without apptainer"
    )
if not {DeploymentMethod.APPTAINER, DeploymentMethod.CONDA} & set(software):
    # Rules call the `rspo` beside the Python that runs Snakemake, also when no environment is activated.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
if DeploymentMethod.CONDA in software:
    verl = experiment.config.verl
    kind = "gpu" if verl is not None and verl.device == "cuda" else "cpu"
    set_conda_environment(workflow, f"{workflow.basedir}/envs/conda-{kind}.yaml")

if workflow.output_settings.dryrun and Quietness.RULES in (workflow.output_settings.quiet or ()):
    skip_scheduling(list_cells)
    gc.disable()  # the process ends before garbage collection pays off

if workflow.is_main_process and not workflow.output_settings.dryrun:
    remove_locks_of_killed_runs()
    record_holder_of_locks()

# SLURM sends USR1 ahead of the time limit. Only `rspo train` handles it; the shells around it
# ignore it.
if "SLURM_JOB_ID" in os.environ:
    forward_stop_requests()
    shell.prefix("set -euo pipefail; trap '' USR1; ")


# Not in dry runs, and not inside SLURM jobs.
onstart:
    if not workflow.local_exec:
        run_doctor(workflow, EXPERIMENT_OPTIONS)
    follow_progress(workflow.dag)
    if any(job.rule.name.startswith("publish") for job in workflow.dag.needrun_jobs()):
        removed = remove_outdated_copies(Path(REPORTS), Path(RESULTS), available(experiment))
        if removed:
            say(f"removed {len(removed)} copies from {REPORTS}/: of another scale, or outdated")
