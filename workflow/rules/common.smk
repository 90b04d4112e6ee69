# The experiment behind this run, and what every rule needs of it.
#
# What a command says goes to the screen and to its log: the one line that tells what to mend must
# not have to be looked for. (tee -i: Ctrl-C is for the command, which then has a last word.)

import json
import shlex
import threading
from pathlib import Path

from rspo.datasets.hub import require_mirror
from rspo.errors import InputError
from rspo.experiment import Experiment
from rspo.files import fingerprint
from rspo.evaluation.agreement import compared
from rspo.figures import SUFFIXES, available, figures_of, named
from rspo.rewards import NEED_JUDGE
from rspo.status import follow
from snakemake.exceptions import WorkflowError

SCALE = config.get("scale", "tiny")
MIRROR = config.get("mirror")
OVERRIDES = {key: value for key, value in config.items() if key not in ("scale", "mirror")}

try:
    experiment = Experiment.load(SCALE, OVERRIDES)
    require_mirror(Path(MIRROR) if MIRROR else None, experiment.data_sets.values())
    figures = figures_of(experiment)
except InputError as error:
    raise WorkflowError(str(error))

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


wildcard_constraints:
    cell=r"[^/]+--s\d+",
    policy=r"[^/]+--(s\d+|base)",
    model=r"[^/]+",
    data_set=r"[^/]+",
    benchmark=r"[^/]+",
    suite=r"[^/]+",
    figure=r"fig_[^/]+",
    table=r"\w+",


def settings(step, wildcard=""):
    """Params function: a fingerprint of the settings that one file of a step depends on."""
    return lambda wildcards: experiment.settings_hash(step, getattr(wildcards, wildcard, ""))


def figure_of(wildcards):
    """The figure that a file's name asks for."""
    try:
        return named(figures, wildcards.figure)
    except InputError as error:
        raise WorkflowError(str(error))


def judge_prompt(verifier):
    """What a verifier needs besides responses and answers."""
    return [str(experiment.judge_prompt)] if verifier in NEED_JUDGE else []


def judge_servers(verifier):
    """How many servers a job starts; the profile says how many there may be at a time."""
    settings = experiment.config.xverify
    return int(verifier in NEED_JUDGE and settings is not None and settings.url is None)


def follow_progress(dag):
    """Print where the policies of this run stand, as long as this Snakemake lives."""
    wildcards = [job.wildcards_dict for job in dag.jobs]
    policies = {item.get("policy") or item.get("cell") for item in wildcards} - {None}
    if policies:
        threading.Thread(target=follow, args=(experiment, sorted(policies)), daemon=True).start()
