"""Checks of the installed packages, verl's config, and the free disk space."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from rspo.core.errors import InputError
from rspo.slurm.launch import ERROR, INFO, WARNING, Finding, Launch
from rspo.slurm.profile import PROFILE
from rspo.status.policies import is_finished
from rspo.training.verl import disk
from rspo.training.verl.checkpoints import require_ranks

IMAGE = Path("envs") / "rspo.sif"  # `container` in the Snakefile


def verl_configs(launch: Launch) -> Iterator[Finding]:
    """Whether verl accepts the config of each cell, and has the packages to train it."""
    if launch.experiment.config.engine != "verl" or not launch.trains:
        return
    if launch.deployment:
        yield Finding(
            INFO,
            f"jobs use the environment of {launch.deployment}: its packages and verl's config were "
            "not checked",
        )
        return
    yield from (Finding(ERROR, line) for line in launch.config_check.problems)


def image(launch: Launch) -> Iterator[Finding]:
    """Whether the image exists and lets its programs use GPUs."""
    if "apptainer" not in (launch.deployment or ""):
        return
    if not IMAGE.is_file():
        yield Finding(
            ERROR, f"{IMAGE}: no such image; `apptainer build {IMAGE} envs/rspo.def` makes it"
        )
    if "apptainer-args" in launch.profile and "--nv" not in str(launch.profile["apptainer-args"]):
        yield Finding(
            ERROR, f"{PROFILE}: apptainer-args has no --nv: programs in the image see no GPU"
        )


def disk_space(launch: Launch) -> Iterator[Finding]:
    """Whether the policies, and the checkpoints of the cells that train at the same time, fit."""
    experiment = launch.experiment
    if experiment.config.engine != "verl" or not launch.trains:
        return
    cells = [name for name in experiment.cells if not is_finished(experiment, name)]
    models = [experiment.config.models[experiment.model_of(name)].expected for name in cells]
    sizes = [model.parameters for model in models if model is not None]
    if not sizes:
        return
    parents = (experiment.results, *experiment.results.absolute().parents)
    free = shutil.disk_usage(next(path for path in parents if path.is_dir())).free
    least = disk.peak_bytes(min(sizes))
    jobs = launch.profile.get("jobs")
    jobs = len(sizes) if jobs in (None, "unlimited") else int(jobs)
    sizes.sort(reverse=True)
    at_once, others = sizes[:jobs], sizes[jobs:]
    most = sum(map(disk.peak_bytes, at_once)) + sum(map(disk.policy_bytes, others))
    if free < least:
        yield Finding(
            ERROR,
            f"{experiment.results}: {free / 1e9:,.0f} GB are free; the smallest cell needs "
            f"{least / 1e9:,.0f} GB while it writes a checkpoint",
        )
    elif free < most:
        yield Finding(
            WARNING,
            f"{experiment.results}: {free / 1e9:,.0f} GB are free; {len(at_once)} cells at a time "
            f"and the policies of the others need {most / 1e9:,.0f} GB: free space, look at your "
            f"quota, or set fewer `jobs` in {PROFILE}",
        )


def ranks_of_checkpoints(launch: Launch) -> Iterator[Finding]:
    """Whether the ranks of the config can read the existing checkpoints."""
    experiment = launch.experiment
    settings = experiment.config.verl
    if experiment.config.engine != "verl" or settings is None or not launch.trains:
        return
    for name in experiment.cells:
        try:
            require_ranks(experiment.checkpoint(name), settings.ranks)
        except InputError as error:
            # If other settings changed too, training starts over without this checkpoint.
            yield Finding(WARNING, str(error))
