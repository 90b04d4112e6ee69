# How this Snakemake runs the rules, also on SLURM and inside a SLURM job.

import sys
from contextlib import ExitStack
from pathlib import Path

from rspo.core.locks import exclusive_lock
from rspo.core.signals import SNAKEMAKE, name_of_snakemake
from rspo.slurm.preflight import require_packages, run_doctor
from rspo.slurm.snakemake_patches import (
    compare_settings_with_provenance,
    forward_stop_requests,
    keep_one_timer,
    plan_jobs_behind_ancient_inputs,
)
from rspo.snakemake.end_check import require_results
from rspo.snakemake.plan_check import check_every_plan
from snakemake.logging import logger

plan_jobs_behind_ancient_inputs()
compare_settings_with_provenance()
keep_one_timer()
check_every_plan()

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
HELD = ExitStack()  # until the process ends, however it ends


onstart:
    # Not reached by a dry run, nor by the Snakemake inside a SLURM job.
    # Before the locks, so that a refused run leaves no folder behind.
    if not workflow.touch:
        require_packages(workflow, experiment.config)
    if not workflow.local_exec:
        run_doctor(workflow)
    outputs = [str(path) for job in workflow.dag.needrun_jobs() for path in job.output]
    writes_reports = any(output.startswith(f"{REPORTS}/") for output in outputs)
    try:
        for folder in [RESULTS, REPORTS] if writes_reports else [RESULTS]:
            HELD.enter_context(exclusive_lock(Path(folder), waits=False))
    except InputError as error:
        raise WorkflowError(str(error))
    except OSError as error:  # such as a read-only folder
        raise WorkflowError(f"{error.filename}: {error.strerror}")
    # The logger plugin `rspo` shows the progress of its policies.
    logger.info(f"Results are written to {RESULTS}.", extra={"experiment": experiment})


onsuccess:
    require_results(workflow.dag)
    if any(job.rule.name == "report" for job in workflow.dag.jobs):
        logger.info(f"The report is {REPORTS}/report.html.")
