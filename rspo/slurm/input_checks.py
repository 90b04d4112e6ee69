"""Check what the jobs need: packages, verl's config, memory, disk space and problems.

Each check calls the functions that the jobs call, so its messages are those of the jobs.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from rspo.config.experiment import Experiment, base_name
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, read_table
from rspo.plan.jobs import parameters
from rspo.policies.prompt_limit import response_tokens
from rspo.policies.published import require_context
from rspo.policies.tokenizer import ChatTokenizer
from rspo.slurm.launch import ERROR, INFO, WARNING, Finding, Launch
from rspo.slurm.profile import PROFILE
from rspo.training.gpu_memory import require_gpu_memory
from rspo.training.prompts import prompts_of_step, read_prompts
from rspo.training.refused_settings import require_allowed_settings
from rspo.training.validation import held_out_prompts
from rspo.training.verl.checkpoints import PEAK_BYTES_PER_PARAMETER, POLICY_BYTES_PER_PARAMETER
from rspo.training.verl.config_check import check_configs


def verl_configs(launch: Launch) -> Iterator[Finding]:
    """Check whether verl accepts the config of each cell, and has the packages to train it."""
    if launch.experiment.config.engine != "verl" or not launch.runs("train"):
        return
    for fault in check_configs(launch.experiment).problems:
        yield Finding(ERROR, fault)


def settings_of_cells(launch: Launch) -> Iterator[Finding]:
    """Check whether each cell's settings of verl are allowed, and fit the memory of a GPU."""
    if not launch.runs("train"):
        return
    faults = set()
    for cell in launch.experiment.cells:
        try:
            require_allowed_settings(launch.experiment, cell)
            require_gpu_memory(launch.experiment, cell)
        except InputError as error:
            fault = str(error)
            if fault not in faults:  # many cells have the same settings
                yield Finding(ERROR, fault)
            faults.add(fault)


def disk_space(launch: Launch) -> Iterator[Finding]:
    """Check whether the disk has space for all policies, and for checkpoints.

    Cells that train at the same time have checkpoints at the same time.
    """
    experiment = launch.experiment
    if experiment.config.engine != "verl" or not launch.runs("train"):
        return
    sizes = parameters(experiment)
    if not sizes:
        return
    free = _free_bytes(experiment.files.results)
    # With less than `least`, not even the smallest cell can train alone. `most` is needed if the
    # largest cells train at the same time, after all other cells have left their policies.
    least = PEAK_BYTES_PER_PARAMETER * min(sizes)
    at_once = _cells_at_once(launch, sizes)
    others = sum(sizes) - sum(at_once)
    most = PEAK_BYTES_PER_PARAMETER * sum(at_once) + POLICY_BYTES_PER_PARAMETER * others
    if free < least:
        yield Finding(
            ERROR,
            f"{experiment.files.results}: {free / 1e9:,.0f} GB are free; the smallest cell needs "
            f"{least / 1e9:,.0f} GB while it writes a checkpoint",
        )
    elif free < most:
        yield Finding(
            WARNING,
            f"{experiment.files.results}: {free / 1e9:,.0f} GB are free; {len(at_once)} cells at a "
            f"time and the policies of the others need {most / 1e9:,.0f} GB: free space, look at "
            f"your quota, or set fewer `jobs` in {PROFILE}",
        )


def _free_bytes(folder: Path) -> int:
    """The free disk space, in bytes, where a folder is or will be."""
    folder = folder.absolute()
    while not folder.is_dir():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _cells_at_once(launch: Launch, sizes: Sequence[int]) -> list[int]:
    """The sizes of the largest cells, as many of them as may train at the same time.

    Args:
        sizes: the number of parameters of each cell that is not trained yet.
    """
    largest_first = sorted(sizes, reverse=True)
    jobs = launch.profile.get("jobs")
    if jobs in (None, "unlimited"):
        return largest_first
    return largest_first[: int(jobs)]


def prompts(launch: Launch) -> Iterator[Finding]:
    """Check whether each model can be trained and evaluated on the problems that exist."""
    experiment = launch.experiment
    missing: set[Path] = set()
    for model, data_set in _models_and_data(launch):
        files = [experiment.files.policy(base_name(model)), experiment.files.problems(data_set)]
        absent = [path for path in files if not path.exists()]
        # If a file is missing, nothing can be checked yet. A job of this run may make the file.
        if absent:
            missing.update(absent)
            continue
        try:
            _use(experiment, model, data_set)
        except InputError as error:
            yield Finding(ERROR, f"{model} on {data_set}: {error}")
    if missing:
        yield Finding(
            INFO,
            f"problems and models: {len(missing)} files do not exist yet, such as {min(missing)}; "
            "after `snakemake data models`, this checks whether they fit",
        )


def _models_and_data(launch: Launch) -> list[tuple[str, str]]:
    """The pairs of a model and a data set on which a job of this run trains or samples it."""
    experiment = launch.experiment
    pairs = []
    for policy, suite in experiment.evaluations:
        data_sets = []
        if launch.runs("train"):
            data_sets += ["train", "validation"]
        if launch.runs("sample"):
            data_sets += experiment.benchmarks_of(suite)
        pairs += [(experiment.model_of(policy), data_set) for data_set in data_sets]
    return list(dict.fromkeys(pairs))


def _use(experiment: Experiment, model: str, data_set: str) -> None:
    """Do with a model and a data set what the jobs do before they train or sample.

    Raises: InputError if a job would fail, such as for a prompt that is too long for the model.
    """
    config = experiment.config
    data = experiment.files.problems(data_set)
    folder = experiment.files.policy(base_name(model))
    require_context(folder, config.sampling)
    tokenizer = ChatTokenizer(folder)
    if data_set == "train":
        prompts, _ = read_prompts(data, tokenizer, config.sampling)
        # Drawing the prompts of a step fails if there are too few.
        prompts_of_step(prompts.families, config.training, seed=0, step=0)
    elif data_set == "validation":
        held_out_prompts(experiment, tokenizer)
    else:
        chats = [problem["prompt"] for problem in read_table(data, PROBLEMS)]
        for tokens in tokenizer.prompts(chats):
            response_tokens(len(tokens), config.sampling)
