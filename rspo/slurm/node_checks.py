"""Check on a node of each partition whether it has what the jobs need there."""

import json
import shlex
import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.locks import LOCK, exclusive_lock
from rspo.slurm.cluster import NoAnswer, run
from rspo.slurm.cluster_checks import accepted
from rspo.slurm.launch import ERROR, INFO, WARNING, Finding, Launch, gpus_by_model, work_on_gpus
from rspo.slurm.prerequisites import IMPORT_SECONDS, MARK, Needs, Prerequisite
from rspo.slurm.profile import options_of_all_jobs

SECONDS = 60  # how long to wait for a free node of a partition, before its check is skipped
# The time limit of the check on the node, and its memory. Imports need more of both.
MINUTES = 2
MEGABYTES = 1000
IMPORT_MEGABYTES = 8000
# The options that decide on which nodes a job may run.
_OPTIONS = ("--partition=", "--account=", "--qos=", "--constraint=")
_STARTED = "started on a node"  # what the script prints first
RULES = ("train", "sample", "score")  # the rules whose jobs need more than this folder
_PACKAGES = ("torch", "vllm", "verl")  # in the order of their imports


def needs_of(experiment: Experiment, rules: Collection[str], gpus: int = 0) -> Needs:
    """What the jobs of some rules need on a node.

    Args:
        gpus: the GPUs of the node; if it is less than the largest number on which a cell trains,
            that number.
    """
    config = experiment.config
    on_gpus = work_on_gpus(experiment).keys() & set(rules)
    judges = config.starts_judge and {"train", "score"} & set(rules)
    packages = set()
    # Other jobs than those of verl and vLLM need few packages, and some of them take seconds.
    uses_verl = "train" in rules and config.engine == "verl"
    if uses_verl or on_gpus:
        packages.add("torch")
    if uses_verl:
        packages.add("verl")
    if "train" in on_gpus or judges or ("sample" in rules and config.sampler == "vllm"):
        packages.add("vllm")
    needs = Needs(
        gpus=bool(on_gpus), packages=tuple(name for name in _PACKAGES if name in packages)
    )
    if "train" in on_gpus:
        of_cells = gpus_by_model(experiment).values()
        needs = replace(needs, cells=max(gpus, *of_cells) // min(of_cells))
    judge = config.xverify
    if judge is not None and judge.url and {"train", "score"} & set(rules):
        needs = replace(needs, judge=judge.url, judge_model=judge.model)
    return needs


def nodes(launch: Launch) -> Iterator[Finding]:
    """Check a node of each partition, while this host holds a lock in this folder."""
    with tempfile.TemporaryDirectory(prefix=".rspo-doctor-", dir=Path.cwd()) as folder:
        try:
            with exclusive_lock(Path(folder)):
                for options, rules in _placements(launch).items():
                    # The entry of `train` has the GPUs of a node.
                    needs = needs_of(launch.experiment, rules, launch.request("train").gpus)
                    needs = replace(needs, lock=str(Path(folder, LOCK)))
                    yield from _check_node(launch, options, needs)
        except InputError as error:
            yield Finding(ERROR, str(error))


def _check_node(launch: Launch, options: tuple[str, ...], needs: Needs) -> Iterator[Finding]:
    """Check a node on which jobs with some options of `sbatch` may run."""
    where = f"a node ({' '.join(options) or 'default partition'})"
    output, reason = _output_of(launch, options, needs)
    # Scripts of the cluster may print lines before and after the line of our program.
    lines = [line for line in output.splitlines() if line.startswith(MARK)]
    if lines:
        yield from _findings(where, json.loads(lines[-1].removeprefix(MARK)))
    elif _STARTED in output:
        command = f"{_precommand(launch)} && {sys.executable}"
        yield Finding(ERROR, f"{where} cannot run `{command}`: {reason}")
    else:
        yield Finding(
            WARNING,
            f"{where} was not checked: {reason}; check it yourself: {_by_hand(launch, options)}",
        )


def _by_hand(launch: Launch, options: tuple[str, ...]) -> str:
    """The command that checks a node with such options, for a user who can wait for a node."""
    scale = launch.experiment.scale
    check = f"{_precommand(launch)} && rspo doctor --scale {scale} --node"
    words = ["srun"]
    words += options
    words += [f"--mem={IMPORT_MEGABYTES}", "bash", "-c", check]
    return shlex.join(words)


def _findings(where: str, answer: list[dict[str, str]]) -> Iterator[Finding]:
    """A line for each fault of a node, and one for what it has."""
    present = []
    for values in answer:
        one = Prerequisite(**values)
        if one.fault:
            yield Finding(ERROR, f"{where}: {one.name} ({one.found}): {one.fault}")
        else:
            present.append(f"{one.name} ({one.found})")
    yield Finding(INFO, f"{where} has {', '.join(present)}")


def _output_of(launch: Launch, options: tuple[str, ...], needs: Needs) -> tuple[str, str]:
    """Check a node with `rspo.slurm.prerequisites`.

    Returns: what it printed, and on one line what SLURM or a failed command says.
    """
    # Snakemake puts the precommand before the command of each job. Like there, it is text in double
    # quotes, which a shell evaluates.
    quoted = _precommand(launch).replace('"', '\\"')
    script = f'echo {_STARTED}; eval "{quoted}" && exec "$@"'
    minutes = MINUTES
    megabytes = MEGABYTES
    if needs.packages:
        minutes += IMPORT_SECONDS // 60
        megabytes = IMPORT_MEGABYTES
    # One task, or none if no node is free in time.
    words = ["srun", "-n1", f"-t{minutes}", f"--mem={megabytes}", f"--immediate={SECONDS}"]
    words += options
    words += ["sh", "-c", script, "sh", sys.executable, "-m", "rspo.slurm.prerequisites"]
    words += [json.dumps(asdict(needs))]
    try:
        # The wait for a node, the time of the task, and a minute more.
        done = run(*words, seconds=SECONDS + 60 * (minutes + 1))
    except NoAnswer as error:
        return "", str(error)
    reason = done.stderr or "srun printed nothing"
    return done.stdout, " ".join(reason.split())


def _precommand(launch: Launch) -> str:
    """The shell command that each job runs first."""
    return launch.profile.get("precommand") or "true"


def _placements(launch: Launch) -> dict[tuple[str, ...], set[str]]:
    """The options that decide where jobs run, each with the rules whose jobs have these options.

    Only the rules of `RULES` are named. The result is empty if there is no SLURM. Requests that
    SLURM refuses are left out.
    """
    if launch.slurm is None:
        return {}
    placements: dict[tuple[str, ...], set[str]] = {}
    for request in accepted(launch, launch.slurm):
        options = [option for option in request.options if option.startswith(_OPTIONS)]
        placement = tuple(options + options_of_all_jobs(launch.profile))
        rules = placements.setdefault(placement, set())
        for rule in RULES:
            if launch.runs(rule) and launch.request(rule).rule == request.rule:
                rules.add(rule)
    return dict(sorted(placements.items()))
