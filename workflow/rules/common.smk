# The experiment behind this run, and what every rule needs of it.
#
# What a command says goes to the screen and to its log: the one line that tells what to mend must
# not have to be looked for. (tee -i: Ctrl-C is for the command, which then has a last word.)

import gc
import json
import os
import shlex
from pathlib import Path

from rspo.config import fingerprints
from rspo.claims.catalogue import inputs as claim_inputs
from rspo.datasets.hub import require_mirror
from rspo.core.errors import InputError
from rspo.config.experiment import Experiment
from rspo.core.files import fingerprint
from rspo.evaluation.agreement import compared, compared_files
from rspo.figures import SUFFIXES, available, figures_of, named
from rspo.figures.captions import full_caption
from rspo.report import inputs as report_inputs
from rspo.slurm.faults import Controller, FailureLines, watch_queue
from rspo.core.slurm_job import forward_requests
from rspo.slurm.executor import adapt
from rspo.slurm.profile import PROFILE, read_classes
from rspo.slurm.queue import require_no_jobs_in
from rspo.status.policies import suites_of_run
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake.settings.enums import Quietness
from snakemake.settings.types import DeploymentMethod

SCALE = config.get("scale", "tiny")
MIRROR = config.get("mirror")


def with_nulls(value):
    """Snakemake reads the null of `--config KEY='{other: null}'` as a text."""
    if isinstance(value, dict):
        return {key: with_nulls(item) for key, item in value.items()}
    return None if value == "null" else value


OVERRIDES = {
    key: with_nulls(value) for key, value in config.items() if key not in ("scale", "mirror")
}

try:
    experiment = Experiment.load(SCALE, OVERRIDES)
    require_mirror(Path(MIRROR) if MIRROR else None, experiment.data_sets.values())
    figures = figures_of(experiment)
except InputError as error:
    raise WorkflowError(str(error))

software = workflow.deployment_settings.deployment_method
if experiment.nodes > 1 and DeploymentMethod.APPTAINER in software:
    raise WorkflowError(
        "verl.nodes above 1 starts processes with srun, which no image has: no apptainer"
    )

# In a job, the signal before its time limit is for `rspo train` alone, which then asks for another.
if "SLURM_JOB_ID" in os.environ:
    forward_requests()
    shell.prefix("set -euo pipefail; trap '' USR1; ")

# A preview goes through the jobs as a run would, to word each of them, also where the profile then
# drops the words: half of its time.
if workflow.output_settings.dryrun and Quietness.RULES in (workflow.output_settings.quiet or ()):
    JobScheduler.schedule = lambda scheduler: True
    gc.disable()  # and ends before there is garbage worth a search

# The same options for every `rspo` command. They are no params: which files a change remakes is
# decided by the settings that each file depends on, so that seeds=3 adds cells and redoes none.
OPTIONS = shlex.join(
    [
        "--scale",
        SCALE,
        *(
            option
            for key, value in OVERRIDES.items()
            for option in ("--set", f"{key}={json.dumps(value)}")
        ),
    ]
)
MIRROR_OPTION = shlex.join(["--mirror", MIRROR]) if MIRROR else ""
RESULTS = f"results/{SCALE}"
JUDGE = f"{RESULTS}/judge/ready"


wildcard_constraints:
    cell=r"[^/]+--s\d+",
    policy=r"[^/]+--(s\d+|base)",
    model=r"[^/]+",
    data_set=r"[^/]+",
    benchmark=r"[^/]+",
    block=r"\d+",
    suite=r"[^/]+",
    figure=r"fig_[^/]+",
    table=r"\w+",


def settings(step, wildcard=""):
    """Params function: a fingerprint of the settings that one file of a step depends on."""
    return lambda wildcards: fingerprints.settings_hash(
        experiment, step, getattr(wildcards, wildcard, "")
    )


def figure_of(wildcards):
    """The figure that a file's name asks for."""
    try:
        return named(figures, wildcards.figure)
    except InputError as error:
        raise WorkflowError(str(error))


def judge_files(verifier, own_server=True):
    """What must be there before a judge is asked: its prompt; all of it, if for a server of ours."""
    if not experiment.config.needs_judge(verifier):
        return []
    return [ancient(JUDGE if own_server else str(experiment.judge_prompt))]


def judge_servers(verifier):
    """How many servers a job starts; the profile says how many there may be at a time."""
    settings = experiment.config.xverify
    return int(experiment.config.needs_judge(verifier) and settings.url is None)


def cells_on_several_nodes():
    """Regular expression of their names: all or none."""
    return r"[^/]+--s\d+" if experiment.nodes > 1 else r"(?!)"


def prepare_for_slurm():
    """Where SLURM runs the jobs: nobody's may be in this folder yet, and each failure is a line.

    What Snakemake would take for a resource that nobody asks about stops here: a job whose GPUs are
    mistyped would run without.
    """
    if workflow.executor_plugin.name != "slurm":
        return
    import snakemake_executor_plugin_slurm

    profile = Path(os.path.relpath(Path(workflow.basedir) / PROFILE))
    try:
        if profile.is_file():  # or another is used
            read_classes(profile)
        require_no_jobs_in(Path.cwd())
    except InputError as error:
        raise WorkflowError(str(error))
    executor, controller = workflow.scheduler._executor, Controller()
    adapt(snakemake_executor_plugin_slurm, executor, controller.answers)
    logger.addHandler(failure_lines)
    # Once a minute with the shipped profile: SLURM remembers for longer what the lines tell.
    seconds = 3 * workflow.executor_settings.init_seconds_before_status_checks
    watch_queue(executor.run_uuid, jobs_waited_for, controller, seconds)


failure_lines = FailureLines(Path(RESULTS) / "logs")


def tell_what_was_given_up():
    """Where SLURM ran the jobs: hundreds of lines may have come since."""
    if failure_lines in logger.handlers:
        jobs = [(job.rule.name, job.log) for job in workflow.scheduler.failed]
        failure_lines.tell_what_was_given_up(jobs)


submitted = {}  # the last SLURM job of each of Snakemake's


def jobs_waited_for():
    """Numbers of the SLURM jobs whose end Snakemake has not seen.

    Depends on snakemake/scheduling/job_scheduler.py and on the executor's `active_jobs`, which is
    empty while it looks after them.
    """
    scheduler = workflow.scheduler
    for active in list(scheduler._executor.active_jobs):
        submitted[active.job] = active.external_jobid
    return {number for job, number in submitted.items() if job in scheduler.running}


def conda_file():
    """The environment that this scale needs, for --sdm conda."""
    settings = experiment.config.verl
    kind = "gpu" if settings is not None and settings.device == "cuda" else "cpu"
    return f"{workflow.basedir}/envs/conda-{kind}.yaml"


def follow_progress(dag):
    """Pass the policies of this run to the logger plugin `rspo`, which shows their progress."""
    suites = suites_of_run(job.wildcards_dict for job in dag.jobs)
    logger.info(
        f"This run has {len(suites)} policies.",
        extra={"experiment": experiment, "suites": suites},
    )
