"""Checks of problems and base policies against the config, as soon as both exist.

They call what the jobs call, so that a message is that of the job.
"""

from collections.abc import Iterator

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
        yield Finding(Kind.ERROR, str(error))


def prompts(launch: Launch) -> Iterator[Finding]:
    """Whether each model can be trained and evaluated on the problems that exist."""
    experiment = launch.experiment
    by_training = ["train", "validation"] if launch.trains else []
    pairs = [
        (experiment.model_of(policy), data_set)
        for policy, suite in experiment.evaluations
        for data_set in (
            *by_training,
            *(experiment.benchmarks_of(suite) if launch.runs("sample") else []),
        )
    ]
    missing = set()
    for model, data_set in dict.fromkeys(pairs):
        files = experiment.policy(base_name(model)), experiment.problems(data_set)
        if absent := [path for path in files if not path.exists()]:
            missing |= set(absent)
            continue
        try:
            _use(experiment, model, data_set)
        except InputError as error:
            yield Finding(Kind.ERROR, f"{model} on {data_set}: {error}")
    if missing:
        yield Finding(
            Kind.INFO,
            f"problems and models: {len(missing)} files do not exist yet, such as {min(missing)}; "
            "after `snakemake data models`, this checks whether they fit",
        )


def _use(experiment: Experiment, model: str, data_set: str) -> None:
    """Do what the jobs do with both. Raises: InputError."""
    config, data = experiment.config, experiment.problems(data_set)
    folder = experiment.policy(base_name(model))
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
