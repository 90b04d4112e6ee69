# The config, the wildcards, and the functions that find the inputs of rules.

import json
import os
import shlex
from pathlib import Path

from rspo import report as report_page
from rspo.analysis import claims, studies
from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.datasets.hub import require_mirror
from rspo.figures import SUFFIXES, figures_of, in_all, named
from snakemake.exceptions import WorkflowError

SCALE = config.get("scale", "tiny")
MIRROR = config.get("mirror")
OWN_RESULTS = config.get("results")
REPLACE = config.get("replace", False)
KEYS = ("scale", "mirror", "results", "replace")
OVERRIDES = {key: config[key] for key in config if key not in KEYS}

if "results" in config and not OWN_RESULTS:
    raise WorkflowError("results is empty; expected a folder, such as results=trial")
if not isinstance(REPLACE, bool):
    raise WorkflowError(f"replace = {REPLACE}; expected true or false")

try:
    experiment = Experiment.load(
        SCALE, OVERRIDES, results=Path(str(OWN_RESULTS)) if OWN_RESULTS else None
    )
    if REPLACE:
        experiment = experiment.replacing()
    require_mirror(Path(MIRROR) if MIRROR else None, experiment.data_sets.values())
    if workflow.is_main_process and any(
        data_set.file for data_set in experiment.data_sets.values()
    ):
        from rspo.datasets.prepare import require_own_files

        require_own_files(experiment)
    figures = figures_of(experiment)
except InputError as error:
    raise WorkflowError(str(error))

RESULTS = str(experiment.results)
REPORTS = str(experiment.reports)
# What every `rspo` command reads instead of --scale, --set and --results. These are no params: a
# changed setting reruns only the jobs whose files depend on it, so that seeds=3 adds cells and
# repeats none.
GIVEN = {"scale": SCALE, "set": OVERRIDES, "results": OWN_RESULTS and RESULTS}
os.environ.update(RSPO_EXPERIMENT=json.dumps(GIVEN))
MIRROR_OPTION = shlex.join(["--mirror", MIRROR]) if MIRROR else ""
JUDGE = f"{RESULTS}/judge/ready"
# Stamp for the files that a verifier with a judge model needs.
JUDGE_FILES = [ancient(JUDGE)] if experiment.config.verifier == "xverify" else []
# Whether a job starts judge servers, which need the machine; the profile limits their total.
STARTS_JUDGE = int(experiment.config.starts_judge)


wildcard_constraints:
    cell=r"[^/]+--s\d+",
    policy=r"[^/]+--(s\d+|base)",
    model=r"[^/]+",
    data_set=r"[^/]+",
    suite=r"[^/]+",
    block=r"\d+",
    figure=r"fig_[^/]+",
    file=r"[^/]+",


def figure_of(wildcards):
    """The step of the figure with the requested file name."""
    try:
        return named(figures, wildcards.figure).step(experiment)
    except InputError as error:
        raise WorkflowError(str(error))


def in_own_folder(wildcards):
    """Raises: WorkflowError that names the file of a run with results of its own."""
    raise WorkflowError(
        f"with results={OWN_RESULTS}, reports/{wildcards.file} is {REPORTS}/{wildcards.file}"
    )


def problems_of(wildcards):
    names = experiment.benchmarks_of(wildcards.suite)
    return [f"{RESULTS}/problems/{name}.parquet" for name in names]


def page_of_ones_own(wildcards):
    """The template of a study's page in the project's folder, if it has one."""
    study = experiment.config.studies.get(wildcards.study)
    return [study.page] if study and study.page else []
