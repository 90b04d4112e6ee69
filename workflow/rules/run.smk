# How this Snakemake runs the rules, also on SLURM and inside a SLURM job.

import sys
from contextlib import ExitStack
from pathlib import Path

from rspo.core.locks import exclusive_lock
from rspo.core.signals import SNAKEMAKE, name_of_snakemake
from rspo.core.step import faults_behind
from rspo.slurm.preflight import require_packages, require_slurm, run_doctor
from rspo.slurm.snakemake_patches import (
    compare_settings_with_provenance,
    forward_stop_requests,
    keep_one_timer,
    plan_jobs_behind_ancient_inputs,
)
from snakemake.logging import logger

plan_jobs_behind_ancient_inputs()
compare_settings_with_provenance()
keep_one_timer()

# The executor plugin asks SLURM before `onstart`.
if workflow.is_main_process:
    require_slurm(experiment.config)

# Rules call the `rspo` beside the Python that runs Snakemake, also when no environment is activated.
programs = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
os.environ.update(PATH=os.pathsep.join(programs))

# SLURM sends USR1 ahead of the time limit. Only `rspo train` handles it; the shells around it
# ignore it.
if "SLURM_JOB_ID" in os.environ:
    forward_stop_requests()
    shell.prefix("set -euo pipefail; trap '' USR1; ")

# A killed Snakemake leaves its commands behind, but for those in SLURM jobs, which SLURM ends.
os.environ[SNAKEMAKE] = "" if workflow.remote_exec else name_of_snakemake()
# Rules whose results are checked before the first job replaces one, those nearest to the data first.
CHECKED = ("prepare", "pretrain", "train", "sample", "score")
HELD = ExitStack()  # until the process ends, however it ends


onstart:
    # Not reached by a dry run, nor by the Snakemake inside a SLURM job.
    # Before the locks, so that a refused run leaves no folder behind.
    if not workflow.touch:
        require_packages(workflow, experiment.config)
    if not workflow.local_exec:
        run_doctor(workflow)
    planned = list(workflow.dag.needrun_jobs())
    outputs = [str(output) for job in planned for output in job.output]
    writes_reports = any(output.startswith(f"{REPORTS}/") for output in outputs)
    try:
        for folder in [RESULTS, REPORTS] if writes_reports else [RESULTS]:
            HELD.enter_context(exclusive_lock(Path(folder), waits=False))
        # Snakemake removes the outputs of a job before its command checks the inputs. It does not
        # with `--touch`.
        replaced = [
            getattr(steps, rule)(experiment, *job.wildcards)
            for rule in CHECKED
            for job in ([] if workflow.touch else planned)
            if job.rule.name == rule and any(Path(path).exists() for path in job.output)
        ]
        inputs = [pair for step in replaced for pair in step.inputs()]
        for fault in faults_behind(inputs, planned=map(Path, outputs)).values():
            raise InputError(fault)
        faults = [step.fault_of_outputs(contents=False) for step in replaced]
        if found := [fault for fault in faults if fault]:
            more = f", and {len(found) - 1} more" if found[1:] else ""
            logger.warning(f"This run makes results again: {found[0]}{more}.")
    except InputError as error:
        raise WorkflowError(str(error))
    except OSError as error:  # such as a read-only folder
        raise WorkflowError(f"{error.filename}: {error.strerror}")
    # The logger plugin `rspo` shows the progress of its policies.
    logger.info(f"Results are written to {RESULTS}.", extra={"experiment": experiment})


onsuccess:
    if any(job.rule.name == "report" for job in workflow.dag.jobs):
        logger.info(f"The report is {REPORTS}/report.html.")
