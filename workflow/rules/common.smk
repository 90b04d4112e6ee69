# The config, the wildcards, and the functions that find the inputs of rules.

import json
import os
import shlex
from pathlib import Path

from rspo.claims.catalogue import inputs as claim_inputs
from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import fingerprint
from rspo.datasets.hub import require_mirror
from rspo.evaluation.agreement import compared, compared_files
from rspo.figures import SUFFIXES, figures_of, in_all, named
from rspo.figures.captions import full_caption
from rspo.report import inputs as report_inputs
from rspo.report import results_inputs
from rspo.slurm.snakemake_patches import share_resources
from rspo.studies import STUDIES
from snakemake.exceptions import WorkflowError

SCALE = config.get("scale", "tiny")
MIRROR = config.get("mirror")
OWN_RESULTS = config.get("results")


def with_nulls(value):
    """Snakemake reads the null of `--config KEY=null` as a string."""
    if isinstance(value, dict):
        return {key: with_nulls(item) for key, item in value.items()}
    return None if value == "null" else value


OVERRIDES = {
    key: with_nulls(value)
    for key, value in config.items()
    if key not in ("scale", "mirror", "results")
}

try:
    experiment = Experiment.load(
        SCALE, OVERRIDES, results=Path(str(OWN_RESULTS)) if OWN_RESULTS else None
    )
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
# changed setting reruns only the jobs whose files depend on it (see `settings`), so that seeds=3
# adds cells and repeats none.
GIVEN = {"scale": SCALE, "set": OVERRIDES, "results": OWN_RESULTS and RESULTS}
os.environ.update(RSPO_EXPERIMENT=json.dumps(GIVEN))
MIRROR_OPTION = shlex.join(["--mirror", MIRROR]) if MIRROR else ""
JUDGE = f"{RESULTS}/judge/ready"
VERL = experiment.config.verl
CONDA = (
    f"../../envs/conda-{'gpu' if VERL and VERL.device == 'cuda' else 'cpu'}.yaml"  # for --sdm conda
)


wildcard_constraints:
    cell=r"[^/]+--s\d+",
    policy=r"[^/]+--(s\d+|base)",
    model=r"[^/]+",
    data_set=r"[^/]+",
    suite=r"[^/]+",
    figure=r"fig_[^/]+",
    table=r"\w+",


def settings(step, wildcard=""):
    """Params function: fingerprint of the settings that a file of this step depends on."""
    return lambda wildcards: fingerprints.settings_hash(
        experiment, step, getattr(wildcards, wildcard, "")
    )


def figure_of(wildcards):
    """The figure with the requested file name."""
    try:
        return named(figures, wildcards.figure)
    except InputError as error:
        raise WorkflowError(str(error))


def problems_of(suite):
    return [f"{RESULTS}/problems/{name}.parquet" for name in experiment.benchmarks_of(suite)]


def tables_of(kind, suite):
    """Samples or scores tables of a policy on a suite, with the wildcard {policy}."""
    return expand(
        f"{RESULTS}/cells/{{{{policy}}}}/{kind}/{{benchmark}}/{{block}}.parquet",
        benchmark=experiment.benchmarks_of(suite),
        block=experiment.blocks,
    )


def judge_files(verifier):
    """Stamp for the files that a verifier with a judge model needs."""
    return [ancient(JUDGE)] if experiment.config.needs_judge(verifier) else []


def judge_servers(verifier):
    """Whether a job starts judge servers, which need the machine; the profile limits their total."""
    return int(experiment.config.starts_judge(verifier))


def cells_on_several_nodes():
    """Regular expression for the names of the cells that train on several nodes: all or none."""
    return r"[^/]+--s\d+" if experiment.nodes > 1 else r"(?!)"
