# How this Snakemake runs the rules, also on SLURM and inside a SLURM job.

import os
import sys
from pathlib import Path

from rspo.core.signals import SNAKEMAKE, name_of_snakemake
from rspo.config.given import EXPERIMENT_VARIABLE
from rspo.snakemake.preflight import (
    jobs_of,
    lock_until_the_end,
    require_packages,
    require_slurm,
    run_doctor,
)
from rspo.snakemake.patches import (
    always_run,
    compare_settings_with_provenance,
    keep_one_timer,
    plan_jobs_behind_ancient_inputs,
)
from rspo.snakemake.end_check import require_results
from rspo.snakemake.plan_check import check_every_plan
from snakemake.logging import logger

if workflow.modifier.modify_path("results") != "results":
    raise WorkflowError(
        "a module of this workflow has no `prefix` for its files, because its commands would write "
        "to other folders; name a folder with `results` in its `config`"
    )

plan_jobs_behind_ancient_inputs()
compare_settings_with_provenance()
keep_one_timer()
check_every_plan()

# The executor plugin asks SLURM before `onstart`.
if workflow.is_main_process:
    require_slurm(experiment.config)

# Rules call the `rspo` beside the Python that runs Snakemake, also when no environment is activated.
own_programs = str(Path(sys.executable).parent)
programs = os.environ.get("PATH", "").split(os.pathsep)
if programs[0] != own_programs:  # which another module has added
    os.environ.update(PATH=os.pathsep.join([own_programs, *programs]))
# The commands of rules have their experiment in front, or the default one.
os.environ.pop(EXPERIMENT_VARIABLE, None)

# A killed Snakemake leaves its commands behind, but for those in SLURM jobs, which SLURM ends.
os.environ[SNAKEMAKE] = "" if workflow.remote_exec else name_of_snakemake()


onstart:
    # Not reached by a dry run, nor by the Snakemake inside a SLURM job.
    jobs_here = jobs_of(workflow, rules)
    # Before the locks, so that a refused run leaves no folder behind.
    if not workflow.touch:
        require_packages({name for name, _ in jobs_here}, experiment.config)
    if not workflow.local_exec:
        run_doctor(jobs_here, given.environment)
    outputs = [str(output) for _, job in jobs_here for output in job.output]
    writes_reports = any(output.startswith(f"{REPORTS}/") for output in outputs)
    try:
        for folder in [RESULTS, REPORTS] if writes_reports else [RESULTS]:
            lock_until_the_end(Path(folder))
    except InputError as error:
        raise WorkflowError(str(error))
    except OSError as error:  # such as a read-only folder
        raise WorkflowError(f"{error.filename}: {error.strerror}")
    # The logger plugin `rspo` shows the progress of its policies.
    logger.info(f"Results are written to {RESULTS}.", extra={"experiment": experiment})


always_run(workflow, "onstart", onstart)


onsuccess:
    # With --touch, the files of a copy that is not complete are missing.
    if not workflow.touch:
        require_results(workflow.dag)
    page = f"{REPORTS}/report.html"
    if any(page in job.output for job in workflow.dag.jobs):
        logger.info(f"The report is {page}.")


always_run(workflow, "onsuccess", onsuccess)
