"""The steps of the pipeline up to the tables: inputs, outputs, and the settings that decide them.

Steps of figures, claims, studies and the report are completed beside their code.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from rspo.config.experiment import BASE, Experiment, base_name
from rspo.config.names import (
    GENERATOR_REVISION,
    HUB_MODEL_REVISION,
    JUDGE_SAMPLING,
    VERIFIER_VERSIONS,
)
from rspo.config.registered import OWN_REWARDS
from rspo.config.schema import Columns, Config
from rspo.core.errors import InputError
from rspo.core.files import digest, fingerprint
from rspo.core.locks import LOCK
from rspo.core.settings import Settings
from rspo.objectives import OBJECTIVES
from rspo.pipeline.task import Task
from rspo.pipeline.verl_fingerprint import policy_settings

Input = tuple[Path, Task]  # a file or folder, and the step that writes it
Inputs = Callable[[], Sequence[Input]]
Words = ParamSpec("Words")


def task(
    make: Callable[Concatenate[Experiment, Words], Task],
) -> Callable[Concatenate[Experiment, Words], Task]:
    """Make a step know its command, its limit, and the settings of the config alone.

    The limit is `replace_above`. The command has the function's name and positional arguments,
    unless the step states another.
    """

    @wraps(make)
    def made(experiment: Experiment, *words: Words.args, **named: Words.kwargs) -> Task:
        result = make(experiment, *words, **named)
        command = experiment.command(make.__name__.replace("_", "-"), *map(str, words))
        limit = experiment.config.replace_above
        result = replace(result, command=result.command or command, replace_above=limit)
        if experiment.as_configured is None:
            return result
        try:
            configured = make(experiment.as_configured, *words, **named).settings
        except (InputError, LookupError):  # something that only the command line adds
            return result
        return replace(result, configured=configured)

    return made


@task
def prepare(experiment: Experiment, data_set: str) -> Task:
    settings = source_settings(experiment, data_set)
    if data_set not in ("train", "validation") and experiment.config.evaluation.problems:
        settings["first"] = experiment.config.evaluation.problems
    return Task((experiment.problems(data_set),), settings)


@task
def pretrain(experiment: Experiment, model: str) -> Task:
    base, config = base_name(model), experiment.config
    settings = config.models[model].model_dump(mode="json", include={"scratch", "hub"})
    if config.models[model].scratch is not None:
        settings["generator"] = GENERATOR_REVISION
    else:
        settings["files"] = HUB_MODEL_REVISION
    limits = {"max_prompt_tokens", "max_response_tokens"}
    settings |= config.sampling.model_dump(mode="json", include=limits)
    lock, checkpoint = experiment.folder(base) / LOCK, experiment.checkpoint(base)
    return Task((experiment.policy(base),), settings, lock=lock, checkpoint=checkpoint)


@task
def train(experiment: Experiment, cell: str) -> Task:
    run, config = experiment.cell(cell), experiment.for_cell(cell).config

    def inputs() -> list[Input]:
        base = policy_task(experiment, base_name(run.model))
        judge = judge_inputs(experiment, config.verifier)
        return [first_output(base), first_output(prepare(experiment, "train")), *judge]

    settings = asdict(run) | verifier_settings(config, config.verifier)
    del settings["variant"]  # its settings follow
    settings.pop("rules", None)  # a new version of the rules must not rerun weeks of training
    settings["objective_version"] = OBJECTIVES[run.objective].version
    settings["learning_rate"] = config.models[run.model].learning_rate
    settings |= config.model_dump(mode="json", include={"engine", "sampling"})
    # Two settings do not change the policy, so changing them must not rerun the training. Nor must
    # a setting that is new to the schema, so those at their defaults are left out.
    unused = {"checkpoint_every", "validation"}
    settings["training"] = config.training.model_dump(
        mode="json", exclude=unused, exclude_defaults=True
    )
    if config.engine == "verl" and config.verl is not None:
        settings["verl"] = policy_settings(config.verl, config.models[run.model].verl)
    settings |= {"rewards": reward_settings(config, run.reward)} | config.rewards.wrong_verdicts
    outputs = experiment.policy(cell), experiment.training_log(cell)
    lock, checkpoint = experiment.folder(cell) / LOCK, experiment.checkpoint(cell)
    return Task(outputs, settings, inputs, lock, checkpoint=checkpoint)


@task
def sample(experiment: Experiment, policy: str, suite: str, block: int) -> Task:
    def inputs() -> list[Input]:
        return [
            first_output(policy_task(experiment, policy)),
            *_problems(experiment, experiment.benchmarks_of(suite)),
        ]

    config = experiment.config
    # Settings of one block; the number of blocks does not change a block.
    settings = config.evaluation.model_dump(mode="json", include={"block", "seed"})
    settings["benchmarks"] = experiment.benchmarks_of(suite)
    settings |= config.sampling.model_dump(mode="json") | {"sampler": config.sampler}
    output = experiment.samples(policy, suite, block)
    return Task((output,), settings, inputs, lock_of(output))


@task
def score(experiment: Experiment, policy: str, suite: str, block: int) -> Task:
    def inputs() -> list[Input]:
        return [
            first_output(sample(experiment, policy, suite, block)),
            *_problems(experiment, experiment.benchmarks_of(suite)),
            *judge_inputs(experiment, experiment.config.verifier),
        ]

    config = experiment.config
    settings = verifier_settings(config, config.verifier)
    settings["benchmarks"] = experiment.benchmarks_of(suite)
    settings["max_response_tokens"] = config.sampling.max_response_tokens
    settings["reward"] = config.evaluation.reward
    settings |= reward_settings(config, config.evaluation.reward)
    output = experiment.scores(policy, suite, block)
    return Task((output,), settings, inputs, lock_of(output))


def lock_of(table: Path) -> Path:
    """The lock of a table that has a journal."""
    return table.with_name(f".{table.stem}{LOCK}")


@task
def curves(experiment: Experiment, policy: str, suite: str) -> Task:
    output, chosen = experiment.curves(policy, suite), {"k", "resamples", "seed"}
    settings = experiment.config.evaluation.model_dump(mode="json", include=chosen)
    return Task((output,), settings, lambda: score_inputs(experiment, policy, suite))


def every_curve(experiment: Experiment) -> list[Input]:
    """The curves of every policy of the grid."""
    return [first_output(curves(experiment, *pair)) for pair in experiment.evaluations]


@task
def cost(experiment: Experiment) -> Task:
    """Its inputs are the curves that exist: it counts what has been used so far."""

    def inputs() -> list[Input]:
        return [pair for pair in every_curve(experiment) if pair[0].is_file()]

    settings = counted("policies", experiment.policies)
    return Task((experiment.table("cost"),), settings, inputs)


@task
def claims(experiment: Experiment, *, inputs: Inputs = tuple) -> Task:
    """Args: inputs: the scores and logs that the claims rest on (`rspo.analysis.claims`)."""
    config = experiment.config
    # The grid and its seeds determine the compared cells; `k` the values of k.
    settings = config.model_dump(mode="json", include={"grid", "seeds"})
    settings["scale"] = experiment.scale
    settings["suites"] = {suite: list(names) for suite, names in config.data.suites.items()}
    if config.extensions:  # which may have claims
        settings["extensions"] = {
            file: digest(experiment.root / file) for file in config.extensions
        }
    settings |= config.evaluation.model_dump(mode="json", include={"k", "equivalence_margin"})
    names = ("claims.csv", "claim_comparisons.csv")
    outputs = tuple(experiment.reports / name for name in names)
    return Task(outputs, settings, inputs)


@task
def study(experiment: Experiment, name: str) -> Task:
    """Its inputs: the scores of its policies, base policies included, and the logs of its cells."""
    experiment = experiment.of_study(name)
    chosen, policies = experiment.config.studies[name], experiment.policies_of(name)
    suite = chosen.suite

    def inputs() -> list[Input]:
        return [
            *(one for policy in policies for one in score_inputs(experiment, policy, suite)),
            *(log_input(experiment, cell.name) for cell in experiment.cells_of(name)),
        ]

    k = list(experiment.config.evaluation.k)
    settings: Settings = {"scale": experiment.scale, "k": k} | counted("policies", policies)
    settings["equivalence_margin"] = experiment.config.evaluation.equivalence_margin
    settings["study"] = chosen.model_dump(mode="json", exclude={"cells"})
    if chosen.page:
        file = experiment.root / chosen.page
        if not file.is_file():
            raise InputError(
                f"config/{experiment.scale}.yaml: studies.{name}.page = {chosen.page}: no such file"
            )
        settings["page"] = digest(file)
    names = (f"{name}.csv", f"{name}_methods.csv", f"{name}.md")
    outputs = tuple(experiment.table(name).with_name(file) for file in names)
    return Task(outputs, settings, inputs)


@task
def report(experiment: Experiment, *, inputs: Inputs = tuple) -> Task:
    """Args: inputs: every file that the report reads (`rspo.report`)."""
    config = experiment.config.model_dump(mode="json", exclude={"replace_above"})
    settings = {"scale": experiment.scale} | config
    return Task((experiment.reports / "report.html",), settings, inputs)


@task
def fetch_judge(experiment: Experiment) -> Task:
    """The prompt of the judge, and its model, unless a running server has it."""
    prompt, model = experiment.judge_prompt, experiment.judge_model
    xverify = experiment.config.xverify
    if xverify is None:
        raise InputError(f"config/{experiment.scale}.yaml: has no section xverify")
    outputs = (prompt, model) if model else (prompt,)
    settings = xverify.model_dump(mode="json", include={"prompt", "model", "revision"})
    return Task(outputs, settings, lock=prompt.parent / LOCK)


def policy_task(experiment: Experiment, policy: str) -> Task:
    """The step that makes a policy, of a cell or a model."""
    if experiment.is_base(policy):
        return pretrain(experiment, policy.removesuffix(f"--{BASE}"))
    return train(experiment, policy)


def first_output(task: Task) -> Input:
    """The first output of a task, as an input of another."""
    return task.outputs[0], task


def log_input(experiment: Experiment, cell: str) -> Input:
    return experiment.training_log(cell), train(experiment, cell)


def score_inputs(experiment: Experiment, policy: str, suite: str) -> list[Input]:
    blocks = experiment.blocks()
    return [first_output(score(experiment, policy, suite, block)) for block in blocks]


def scored_inputs(experiment: Experiment, policy: str, suite: str) -> list[Input]:
    """The samples and the scores of a policy on a suite."""
    return [
        first_output(task_of_block(experiment, policy, suite, block))
        for block in experiment.blocks()
        for task_of_block in (sample, score)
    ]


def judge_inputs(experiment: Experiment, verifier: str) -> list[Input]:
    """The files that decide a judge model's verdict besides the response and the answers."""
    if verifier != "xverify":
        return []
    fetching = fetch_judge(experiment)
    return [(path, fetching) for path in fetching.outputs]


def results(experiment: Experiment) -> list[Input]:
    """The files of data and policies, without tables and figures, each with its step."""
    return [
        *_problems(experiment, experiment.data_sets),
        *(first_output(policy_task(experiment, policy)) for policy in experiment.policies),
        *(log_input(experiment, cell) for cell in experiment.cells),
        *(file for pair in experiment.evaluations for file in scored_inputs(experiment, *pair)),
        *every_curve(experiment),
    ]


def _problems(experiment: Experiment, data_sets: Iterable[str]) -> list[Input]:
    return [first_output(prepare(experiment, name)) for name in data_sets]


def verifier_settings(config: Config | None, verifier: str) -> Settings:
    """The settings that decide a verdict. The address and limits of a judge's server do not."""
    result: Settings = {"verifier": verifier}
    if verifier in VERIFIER_VERSIONS:
        result["rules"] = VERIFIER_VERSIONS[verifier]
    if verifier == "xverify" and config and config.xverify:
        judge = {"prompt", "model", "revision"}
        result["xverify"] = config.xverify.model_dump(mode="json", include=judge)
        result["xverify"] |= {"sampling": JUDGE_SAMPLING}
    return result


def source_settings(experiment: Experiment, name: str) -> Settings:
    """Settings of all problems of a data set."""
    data_set = experiment.data_set(name)
    # Expectations check the rows but do not change them. Only a file has columns of its own.
    unused: dict[str, Any] = {"label": True, "hub": {"rows", "without_answer", "content_sha256"}}
    if data_set.file is None:
        unused |= dict.fromkeys(Columns.model_fields, True)
    result = data_set.model_dump(mode="json", exclude=unused)
    if data_set.columns.exclude is not None:
        result["excluded"] = source_settings(experiment, data_set.columns.exclude)
    if data_set.file is not None:
        path = experiment.root / data_set.file
        try:
            result["content"] = digest(path)
        except OSError as error:
            key = f"{experiment.key_of(name)}.file"
            raise InputError(f"{path}: cannot be read ({error.strerror}; {key})") from None
    if data_set.generated is not None:
        result["generator"] = GENERATOR_REVISION
    return result


def reward_settings(config: Config, name: str) -> Settings:
    """The settings of a reward."""
    if name in OWN_REWARDS:
        return {"version": OWN_REWARDS[name].version}
    return {} if name == "binary" else {"length_discount": config.rewards.length_discount}


def counted(what: str, names: Sequence[Any]) -> Settings:
    """A long list as its number and fingerprint, for the message about other settings."""
    return {what: len(names), "names": fingerprint(list(names))}
