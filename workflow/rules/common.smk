# The config, the wildcards, and the functions that other rule files use for inputs and commands.

import re
import shlex
from pathlib import Path

from rspo import report as report_page
from rspo.analysis import claims, studies, trials
from rspo.pipeline import tasks
from rspo.config.experiment import Experiment
from rspo.config.given import Given
from rspo.core.errors import InputError
from rspo.datasets.hub import require_mirror
from rspo.figures import SUFFIXES, figures_of, in_all, named
from rspo.snakemake.gpus import share_gpus
from rspo.snakemake.patches import config_as_typed, sources_of
from snakemake.exceptions import WorkflowError

try:
    given = Given.read(config_as_typed(workflow, config))
    experiment = Experiment.load(
        given.scale, given.overrides, results=given.results, sources=sources_of(workflow)
    )
    if given.replace:
        experiment = experiment.replacing()
    require_mirror(given.mirror, experiment.data_sets.values())
    # Jobs skip this check: Snakemake starts them with the same Snakefile.
    if workflow.is_main_process and any(
        data_set.file for data_set in experiment.data_sets.values()
    ):
        from rspo.datasets.prepare import require_own_files

        require_own_files(experiment)
    figures = figures_of(experiment)
except InputError as error:
    raise WorkflowError(str(error))

RESULTS = str(experiment.files.results)
REPORTS = str(experiment.files.reports)
MIRROR_OPTION = shlex.join(["--mirror", str(given.mirror)]) if given.mirror else ""
# An empty file that stands for the files of the judge model (rule judge).
JUDGE = f"{RESULTS}/judge/ready"
# The judge's file as an input of the rules that verify; empty for a verifier without a judge.
# `ancient`: if the file is only newer, nothing is verified again.
JUDGE_FILES = [ancient(JUDGE)] if experiment.config.verifier == "xverify" else []
# The amount of the resource `judge_server` of a job that verifies: 1 if it starts judge servers, which
# need the whole machine. The profile limits the total of all jobs that run at the same time.
STARTS_JUDGE = int(experiment.config.starts_judge)


# Without constraints, a wildcard may match "/", so that several rules could make the same file. The
# seed tells cells from base policies.
wildcard_constraints:
    cell=r"[^/]+--s\d+",
    policy=r"[^/]+--(s\d+|base)",
    model=r"[^/]+",
    data_set=r"[^/]+",
    suite=r"[^/]+",
    block=r"\d+",
    figure=r"fig_[^/]+",
    file=r"[^/]+",


def rspo_command(words):
    """The command of a rule: `rspo WORDS` with the experiment in front, and its output in the log.

    The experiment is in the command and not in a param, because Snakemake runs a job again if its
    params have changed, but not if its command has. So seeds=3 adds cells and repeats none.
    """
    return f"{given.command} {words} 2>&1 | tee -ip {{log}}"


def figure_of(wildcards):
    """The task of the figure with the requested file name."""
    try:
        return named(figures, wildcards.figure).task(experiment)
    except InputError as error:
        raise WorkflowError(str(error))


def in_own_folder(wildcards):
    """Refuse a request for a file in reports/, because this run has its own folder of reports.

    Raises: WorkflowError, in any case, that names the file in that folder.
    """
    raise WorkflowError(
        f"with results={given.results}, reports/{wildcards.file} is {REPORTS}/{wildcards.file}"
    )


def base_policy_of(cell):
    """The folder of the base policy with which the training of a cell begins."""
    return f"{RESULTS}/cells/{experiment.base_of(experiment.cell(cell))}/policy"


def problems_of(wildcards):
    """The tables with the problems of each benchmark of a suite."""
    names = experiment.benchmarks_of(wildcards.suite)
    return [f"{RESULTS}/problems/{name}.parquet" for name in names]


def template_of_study(wildcards):
    """The template that the config names for a study's page, if it names one."""
    study = experiment.config.studies.get(wildcards.study)
    return [study.page] if study and study.page else []
