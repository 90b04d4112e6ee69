"""What the workflow does when Snakemake reads it, at the start of a run and at its end."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from rspo.config.experiment import Experiment
from rspo.config.given import EXPERIMENT_VARIABLE
from rspo.core.checkout import checkout_above, require_same_checkout
from rspo.core.errors import InputError
from rspo.core.signals import SNAKEMAKE, name_of_snakemake
from rspo.snakemake.end_check import require_results
from rspo.snakemake.patches import (
    compare_results_with_provenance,
    file_of_rules,
    keep_one_timer,
    plan_jobs_behind_ancient_inputs,
)
from rspo.snakemake.plan_check import check_every_plan
from rspo.snakemake.preflight import (
    jobs_of,
    lock_until_the_end,
    require_packages,
    require_slurm,
    run_doctor,
)
from rspo.snakemake.progress import LogHandler
from rspo.snakemake.targets import suggest_targets


def read_workflow(workflow: Any, experiment: Experiment) -> None:
    """Prepare Snakemake and its environment for the rules.

    workflow/rules/run.smk calls this while Snakemake reads it.

    Args:
        workflow: the `snakemake.workflow.Workflow` that reads the Snakefile.

    Raises: WorkflowError if a module has a prefix, if the rules are those of another checkout than
        the code, and if the run needs SLURM, which does not answer.
    """
    rules = file_of_rules(workflow)
    checkout = checkout_above(rules) if rules else None
    if checkout:
        try:
            require_same_checkout(checkout)
        except InputError as error:
            raise WorkflowError(str(error)) from None
    # A module with `prefix: "x"` has "x/results" in place of the path "results".
    if workflow.modifier.modify_path("results") != "results":
        raise WorkflowError(
            "a module of this workflow has no `prefix` for its files, because its commands would "
            "write to other folders; name a folder with `results` in its `config`"
        )
    plan_jobs_behind_ancient_inputs()
    compare_results_with_provenance()
    keep_one_timer()
    check_every_plan()
    suggest_targets(experiment)
    # Here and not in `start_run`, because the executor plugin asks SLURM before `onstart`.
    if workflow.is_main_process:
        require_slurm(experiment.config)
    _set_environment(workflow)


def _set_environment(workflow: Any) -> None:
    """Set the variables that the commands of the rules read."""
    # Rules call the `rspo` that is installed beside the Python of this Snakemake, even if its
    # environment is not activated.
    own_programs = str(Path(sys.executable).parent)
    programs = os.environ.get("PATH", "").split(os.pathsep)
    if programs[0] != own_programs:  # another module may have added it
        os.environ["PATH"] = os.pathsep.join([own_programs] + programs)
    # The command line of a rule sets the variable of its experiment, unless that is the default
    # one. A variable from outside would change the default.
    os.environ.pop(EXPERIMENT_VARIABLE, None)
    # Commands end with this Snakemake (`end_with_snakemake`). In a SLURM job, SLURM ends them.
    os.environ[SNAKEMAKE] = "" if workflow.remote_exec else name_of_snakemake()


def start_run(
    workflow: Any, rules: Any, experiment: Experiment, environment: Mapping[str, str]
) -> None:
    """Check the packages and the cluster, and lock the folders of a run that is about to start.

    The `onstart` of the workflow calls this. Snakemake calls `onstart` neither in a dry run nor
    inside a SLURM job.

    Args:
        workflow: the `snakemake.workflow.Workflow` of the run.
        rules: the global variable `rules` of the Snakefile.
        environment: the variables with which an `rspo` command reads the experiment.

    Raises: WorkflowError with a line for each reason not to start.
    """
    jobs = jobs_of(workflow, rules)
    # Before the locks, so that a refused run leaves no folder behind.
    if not workflow.touch:
        require_packages({rule for rule, _ in jobs}, experiment.config)
    if not workflow.local_exec:  # some jobs are submitted
        run_doctor(jobs, environment)
    try:
        for folder in _written_folders(jobs, experiment):
            lock_until_the_end(folder)
    except InputError as error:
        raise WorkflowError(str(error)) from None
    except OSError as error:  # such as a read-only folder
        raise WorkflowError(f"{error.filename}: {error.strerror}") from None
    if not workflow.touch:  # otherwise nothing is at work whose progress could be shown
        show_progress(workflow, experiment)


def show_progress(workflow: Any, experiment: Experiment) -> None:
    """Show the progress of the policies of an experiment while the run lasts.

    The logger plugin `rspo` shows it. A run with another logger has no such display.

    Args:
        workflow: the `snakemake.workflow.Workflow` of the run.
    """
    logger.info(
        f"Results are written to {experiment.files.results}.", extra={"experiment": experiment}
    )
    for handler in workflow.logger_manager.plugin_handlers:
        if isinstance(handler, LogHandler):
            handler.wait_for_display()


def _written_folders(jobs: list[tuple[str, Any]], experiment: Experiment) -> list[Path]:
    """The folder of the results, and the folder of the reports if a job writes there."""
    for _, job in jobs:
        if any(Path(path).is_relative_to(experiment.files.reports) for path in job.output):
            return [experiment.files.results, experiment.files.reports]
    return [experiment.files.results]


def end_run(workflow: Any, experiment: Experiment) -> None:
    """Check the results of a run that ended without an error, and name its report.

    Raises: WorkflowError for results that are missing or damaged.
    """
    # With --touch, files may be missing: it is for copies of results, which may be incomplete.
    if workflow.touch:
        logger.info(_what_was_touched(workflow.dag))
        return
    require_results(workflow.dag)
    page = str(experiment.files.reports / "report.html")
    if any(page in job.output for job in workflow.dag.jobs):
        logger.info(f"The report is {page}.")


def _what_was_touched(dag: Any) -> str:
    """Sentences that say which files of a run with --touch have new times.

    They replace Snakemake's message about each job whose files do not exist (`NOT_TOUCHED` of
    `rspo.snakemake.progress`).
    """
    files = sorted({str(path) for job in dag.jobs for path in job.output})
    missing = [path for path in files if not Path(path).exists()]
    if len(missing) == len(files):
        return "No file of this run exists, so that no file was touched. No job has run."
    if not missing:
        return "All files of this run have new times. No job has run."
    return (
        f"The files that exist have new times. {len(missing)} of {len(files)} files do not exist, "
        f"such as {missing[0]}. No job has run."
    )
