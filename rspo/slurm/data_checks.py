"""Checks of problems and base policies against the config, as soon as both exist.

They call what the jobs call, so that a message is that of the job.
"""

from collections.abc import Iterator
from pathlib import Path

from rspo.config.experiment import Experiment, base_name
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, read_table
from rspo.datasets.prepare import require_own_files
from rspo.policies.prompt_limit import response_tokens
from rspo.policies.published import require_context
from rspo.policies.tokenizer import ChatTokenizer
from rspo.slurm.launch import Finding, Kind, Launch
from rspo.training.prompts import prompts_of_step, read_prompts
from rspo.training.validation import held_out_prompts


def own_files(launch: Launch) -> Iterator[Finding]:
    """Whether the files with problems of the user can be prepared."""
    try:
        require_own_files(launch.experiment)
    except InputError as error:
        yield Finding(Kind.STOPS, str(error))


def prompts(launch: Launch) -> Iterator[Finding]:
    """Whether each model can be trained and evaluated on the problems that exist."""
    experiment = launch.experiment
    for model in dict.fromkeys(experiment.model_of(policy) for policy in experiment.policies):
        try:
            require_prompts(experiment, model)
        except InputError as error:
            yield Finding(Kind.STOPS, str(error))


def require_prompts(experiment: Experiment, model: str) -> None:
    """Check that a model can be trained and evaluated on its problems, as far as both exist.

    Raises: InputError that names the model and the data set.
    """
    folder = experiment.policy(base_name(model))
    for data_set in experiment.data_sets_of(model):
        if folder.is_dir() and experiment.problems(data_set).is_file():
            try:
                _use(experiment, folder, data_set)
            except InputError as error:
                raise InputError(f"{model} on {data_set}: {error}") from None


def _use(experiment: Experiment, folder: Path, data_set: str) -> None:
    """Do what the jobs do with a base policy and problems. Raises: InputError."""
    config, data = experiment.config, experiment.problems(data_set)
    require_context(folder, config.sampling)
    tokenizer = ChatTokenizer(folder)
    if data_set == "train":
        prompts, _ = read_prompts(data, tokenizer, config.sampling)
        prompts_of_step(prompts.families, config.training, seed=0, step=0)
    elif data_set == "validation":
        held_out_prompts(experiment, tokenizer)
    else:
        chats = [problem["prompt"] for problem in read_table(data, PROBLEMS)]
        for tokens in tokenizer.prompts(chats):
            response_tokens(len(tokens), config.sampling)
