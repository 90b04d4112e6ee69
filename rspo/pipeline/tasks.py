"""The tasks of the pipeline in the order of the DAG: outputs, inputs and settings of each.

    prepare       problems/DATA_SET.parquet
    pretrain      cells/MODEL--base/policy
    train         cells/CELL/policy and training.jsonl
    derive        cells/CELL/policy, from that of a trained cell
    fetch_judge   judge/
    sample        cells/POLICY/samples/SUITE/BLOCK.parquet
    score         cells/POLICY/scores/SUITE/BLOCK.parquet
    curves        cells/POLICY/curves/SUITE.parquet
    claims        reports/claims.csv and claim_comparisons.csv
    study         tables/STUDY.csv, STUDY_methods.csv and STUDY.md
    figure        reports/FIGURE.pdf, .png and .csv
    cost          tables/cost.csv
    report        reports/report.html

Each function returns a task, whose results its docstring names. It has the name of the task's
command and rule (workflow/rules/), and takes their arguments. Claims, figures and the report get
their inputs as an argument, because the packages that know which results they read are in higher
layers (rspo.analysis, rspo.figures, rspo.report), which this module cannot import.

Snakemake decides which tasks run. Its rules pass the settings of a task as a parameter. They repeat
the paths of its files, because a reader of the workflow wants to see them; a test compares them
with the paths here.
Snakemake runs a task again when its settings change. So the settings of a task contain whatever
decides the content of its files, and nothing else.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from rspo.config.experiment import BASE, Experiment, base_name
from rspo.config.names import (
    BOX_ONLY,
    EXTRACTING,
    GENERATOR_REVISION,
    HUB_MODEL_REVISION,
    JUDGE_SAMPLING,
    REASONING_GYM,
    VERIFIER_VERSIONS,
)
from rspo.config.registered import OWN_REWARDS, OWN_VERIFIERS, Reward, Verifier
from rspo.config.schema import Columns, Config
from rspo.core.errors import InputError
from rspo.core.files import digest, fingerprint
from rspo.core.locks import LOCK
from rspo.core.own_function import file_of
from rspo.core.settings import Settings
from rspo.objectives import OBJECTIVES, Objective
from rspo.pipeline.task import Task
from rspo.pipeline.verl_fingerprint import policy_settings

Input = tuple[Path, Task]  # a file or folder, and the task that writes it
Inputs = Callable[[], Sequence[Input]]
Words = ParamSpec("Words")  # the words of a command line after the name of the command


def with_command(
    make: Callable[Concatenate[Experiment, Words], Task],
) -> Callable[Concatenate[Experiment, Words], Task]:
    """Decorate a function that returns a task: add the fields that all tasks get in the same way.

    command: the function's name and positional arguments.
    replace_above: the config's limit in minutes above which Snakemake does not replace outputs.
    configured: the settings that the function returns for the config without the command line.
    """

    @wraps(make)
    def complete(experiment: Experiment, *words: Words.args, **named: Words.kwargs) -> Task:
        task = make(experiment, *words, **named)
        command = experiment.command(make.__name__.replace("_", "-"), *map(str, words))
        limit = experiment.config.replace_above
        task = replace(task, command=command, replace_above=limit)
        if experiment.as_configured is None:
            return task
        try:
            configured = make(experiment.as_configured, *words, **named).settings
        except (InputError, LookupError):
            # The config file lacks what `words` name: only the command line defines it.
            return task
        return replace(task, configured=configured)

    return complete


@with_command
def prepare(experiment: Experiment, data_set: str) -> Task:
    """The problems of a data set."""
    settings = source_settings(experiment, data_set)
    if data_set not in ("train", "validation") and experiment.config.evaluation.problems:
        # Only benchmarks are limited to their first problems.
        settings["first"] = experiment.config.evaluation.problems
    return Task((experiment.files.problems(data_set),), settings)


@with_command
def pretrain(experiment: Experiment, model: str) -> Task:
    """The base policy of a model, or of a model and a training seed (`Experiment.pretrained`)."""
    base = f"{model}--{BASE}"
    config = experiment.config
    _, section = experiment.pretrained(model)
    settings = section.model_dump(mode="json", include={"scratch", "hub"})
    # The files of the policy also depend on the code that makes them.
    if section.scratch is not None:
        settings["generator"] = GENERATOR_REVISION
    else:
        settings["files"] = HUB_MODEL_REVISION
    start = section.start
    if start is not None:
        settings["start"] = start.model_dump(mode="json") | {"version": REASONING_GYM}
        settings |= dtype_settings(config)
    # The number of positions of a model from scratch and the limit of the tokenizer follow from
    # these.
    limits = {"max_prompt_tokens", "max_response_tokens"}
    settings |= config.sampling.model_dump(mode="json", include=limits)
    return Task(
        (experiment.files.policy(base),),
        settings,
        lock=experiment.files.folder(base) / LOCK,
        checkpoint=experiment.files.checkpoint(base),
    )


@with_command
def train(experiment: Experiment, cell: str) -> Task:
    """The policy of a cell, and the log of its training.

    Raises: InputError for a cell whose policy is made from that of another one.
    """
    run = experiment.cell(cell)
    if experiment.is_derived(cell):
        raise InputError(f"{cell} has no training: `rspo derive {cell}` makes its policy")
    config = experiment.for_cell(cell).config
    base = experiment.base_of(run)

    def inputs() -> list[Input]:
        start = policy_task(experiment, base)
        files = [first_output(start), first_output(prepare(experiment, "train"))]
        return files + judge_inputs(experiment, config.verifier)

    settings = asdict(run) | verifier_settings(config, config.verifier)
    del settings["variant"]  # the settings that it changes follow
    # The base policy, if the seed has one of its own. The key is left out otherwise, so that
    # trainings from before it was added did not get other settings.
    if base != base_name(run.model):
        settings["base"] = base
    # The version of the verifier: a new one must not rerun weeks of training.
    settings.pop("rules", None)
    # The version of an objective is raised when its code computes something else with the same
    # settings.
    settings["objective_version"] = OBJECTIVES[run.objective].version
    settings["learning_rate"] = config.models[run.model].learning_rate
    settings |= config.model_dump(mode="json", include={"engine", "sampling"})
    # Two settings do not change the policy, so changing them must not rerun the training. A new key
    # in the schema must not either, so settings at their defaults are left out.
    unused = {"checkpoint_every", "validation"}
    settings["training"] = config.training.model_dump(
        mode="json", exclude=unused, exclude_defaults=True
    )
    if config.engine == "verl" and config.verl is not None:
        settings["verl"] = policy_settings(config.verl, config.models[run.model].verl)
    settings["rewards"] = reward_settings(config, run.reward)
    settings |= config.rewards.wrong_verdicts
    if config.engine == "local":
        settings |= dtype_settings(config)
    return Task(
        (experiment.files.policy(cell), experiment.files.training_log(cell)),
        settings,
        inputs,
        lock=experiment.files.folder(cell) / LOCK,
        checkpoint=experiment.files.checkpoint(cell),
        own_code=own_code(OBJECTIVES[run.objective], OWN_REWARDS.get(run.reward)),
    )


@with_command
def derive(experiment: Experiment, cell: str) -> Task:
    """The policy of a cell that is made from the policies of a trained cell and of its base.

    Raises: InputError for a cell that is trained.
    """
    run = experiment.cell(cell)
    if not experiment.is_derived(cell):
        raise InputError(f"{cell} is trained: `rspo train {cell}` makes its policy")
    source = experiment.source_of(run)
    derivation = experiment.derivation_of(run)

    def inputs() -> list[Input]:
        trained = first_output(policy_task(experiment, source.name))
        return [trained, first_output(policy_task(experiment, experiment.base_of(run)))]

    settings = {"source": source.name, "base_share": derivation.base_share}
    # A derivation has no checkpoint; the folder that a checkpoint would have never exists.
    return Task(
        (experiment.files.policy(cell),),
        settings,
        inputs,
        lock=experiment.files.folder(cell) / LOCK,
        checkpoint=experiment.files.checkpoint(cell),
    )


@with_command
def fetch_judge(experiment: Experiment) -> Task:
    """The prompt of the judge, and its model unless the config names a running server."""
    prompt = experiment.files.judge_prompt
    model = experiment.judge_model
    xverify = experiment.config.xverify
    if xverify is None:
        others = [f"`--scale {scale}` has one" for scale in experiment.scales_with("xverify")]
        where = "; ".join([f"config/{experiment.scale}.yaml: has no section xverify"] + others)
        raise InputError(where)
    outputs = (prompt, model) if model else (prompt,)
    settings = xverify.model_dump(mode="json", include={"prompt", "model", "revision"})
    return Task(outputs, settings, lock=prompt.parent / LOCK)


@with_command
def sample(experiment: Experiment, policy: str, suite: str, block: int) -> Task:
    """A block of responses of a policy to the problems of a suite."""

    def inputs() -> list[Input]:
        trained = first_output(policy_task(experiment, policy))
        return [trained] + _problems(experiment, experiment.benchmarks_of(suite))

    config = experiment.config
    # The number of blocks is left out: more blocks do not change those that exist.
    settings = config.evaluation.model_dump(mode="json", include={"block", "seed"})
    settings["benchmarks"] = experiment.benchmarks_of(suite)
    settings |= experiment.sampling_of(policy).model_dump(mode="json")
    settings["sampler"] = config.sampler
    if config.sampler == "torch":
        settings |= dtype_settings(config)
    table = experiment.files.samples(policy, suite, block)
    return Task((table,), settings, inputs, lock=lock_of(table))


@with_command
def score(experiment: Experiment, policy: str, suite: str, block: int) -> Task:
    """The verdicts and rewards of a block of responses."""

    def inputs() -> list[Input]:
        samples = first_output(sample(experiment, policy, suite, block))
        files = [samples] + _problems(experiment, experiment.benchmarks_of(suite))
        return files + judge_inputs(experiment, experiment.config.verifier)

    config = experiment.config
    settings = verifier_settings(config, config.verifier)
    settings["benchmarks"] = experiment.benchmarks_of(suite)
    settings["max_response_tokens"] = config.sampling.max_response_tokens
    settings["reward"] = config.evaluation.reward
    settings |= reward_settings(config, config.evaluation.reward)
    table = experiment.files.scores(policy, suite, block)
    own = own_code(OWN_VERIFIERS.get(config.verifier), OWN_REWARDS.get(config.evaluation.reward))
    return Task((table,), settings, inputs, lock=lock_of(table), own_code=own)


@with_command
def curves(experiment: Experiment, policy: str, suite: str) -> Task:
    """Pass@k and Max@k of a policy on a suite."""
    settings = experiment.config.evaluation.model_dump(
        mode="json", include={"k", "resamples", "seed"}
    )
    table = experiment.files.curves(policy, suite)
    return Task((table,), settings, lambda: score_inputs(experiment, policy, suite))


@with_command
def claims(experiment: Experiment, *, inputs: Inputs = tuple) -> Task:
    """The comparisons that test the paper's claims.

    Args:
        inputs: the scores and logs that the claims rest on (`rspo.analysis.claims`).
    """
    config = experiment.config
    # The grid and its seeds determine which cells are compared.
    settings = config.model_dump(mode="json", include={"grid", "seeds"})
    settings["scale"] = experiment.scale
    settings["suites"] = {suite: list(names) for suite, names in config.data.suites.items()}
    if config.extensions:  # extensions may register claims
        settings["extensions"] = {
            file: digest(experiment.root / file) for file in config.extensions
        }
    settings |= config.evaluation.model_dump(mode="json", include={"k", "equivalence_margin"})
    outputs = (
        experiment.files.reports / "claims.csv",
        experiment.files.reports / "claim_comparisons.csv",
    )
    return Task(outputs, settings, inputs)


@with_command
def study(experiment: Experiment, name: str) -> Task:
    """The tables and the page of a study, which compares methods beyond those of the paper.

    Its inputs are the scores of its policies, base policies included, the logs of its cells, and
    those of the trainings that decide which variants it compares.
    """
    experiment = experiment.of_study(name)
    entry = experiment.config.studies[name]
    policies = experiment.policies_of(name)
    deciding = experiment.deciding_cells(name)

    def inputs() -> list[Input]:
        files = []
        for policy in policies:
            files += score_inputs(experiment, policy, entry.suite)
        for cell in experiment.cells_of(name):
            if not experiment.is_derived(cell.name):  # which has no training of its own
                files.append(log_input(experiment, cell.name))
        for cell in deciding:
            files.append(log_input(experiment, cell.name))
        return files

    settings: Settings = {"scale": experiment.scale, "k": list(experiment.config.evaluation.k)}
    settings |= counted("policies", policies)
    settings["equivalence_margin"] = experiment.config.evaluation.equivalence_margin
    # The policies stand for the cells of the study.
    settings["study"] = entry.model_dump(mode="json", exclude={"cells"})
    if entry.choose_in:
        chooser = experiment.config.studies[entry.choose_in]
        settings["choose_within"] = list(chooser.choose_within)
        settings["choose_margin"] = chooser.choose_margin
    if entry.page:
        file = experiment.root / entry.page
        if not file.is_file():
            raise InputError(
                f"{experiment.place('studies', name, 'page')} = {entry.page}: no such file"
            )
        settings["page"] = digest(file)
    table = experiment.files.table(name)
    outputs = (table, table.with_name(f"{name}_methods.csv"), table.with_name(f"{name}.md"))
    return Task(outputs, settings, inputs)


@with_command
def figure(
    experiment: Experiment,
    name: str,
    *,
    suffixes: Sequence[str],
    settings: Callable[[Experiment], Settings],
    inputs: Inputs,
) -> Task:
    """A figure: its pictures, and the table of its numbers.

    Args:
        suffixes: the suffix of each file, such as ".pdf".
        settings: returns the settings that decide the figure of an experiment (`rspo.figures`).
        inputs: returns every file whose numbers the figure shows.
    """
    outputs = tuple(experiment.files.reports / f"{name}{suffix}" for suffix in suffixes)
    return Task(outputs, settings(experiment), inputs)


@with_command
def cost(experiment: Experiment) -> Task:
    """The table of the time that every policy used, whose inputs are the curves that exist."""

    # The table can be made before all policies are finished, so missing curves are no inputs.
    def inputs() -> list[Input]:
        return [pair for pair in every_curve(experiment) if pair[0].is_file()]

    settings = counted("policies", experiment.policies)
    return Task((experiment.files.table("cost"),), settings, inputs)


@with_command
def report(
    experiment: Experiment, *, published: Sequence[Path] = (), inputs: Inputs = tuple
) -> Task:
    """The whole experiment on one page.

    Args:
        published: tables of docs/ that the report reads, which come with the project.
        inputs: every file of the results that the report reads (`rspo.report`).
    """
    settings: Settings = {"scale": experiment.scale}
    if published:
        settings["published"] = {path.name: digest(path) for path in published}
    unused = {"replace_above", "base_policies"}
    settings |= experiment.config.model_dump(mode="json", exclude=unused)
    return Task((experiment.files.reports / "report.html",), settings, inputs)


def policy_task(experiment: Experiment, policy: str) -> Task:
    """The task that makes a policy: `pretrain` for a base, `train` or `derive` for a cell."""
    if experiment.is_base(policy):
        return pretrain(experiment, policy.removesuffix(f"--{BASE}"))
    if experiment.is_derived(policy):
        return derive(experiment, policy)
    return train(experiment, policy)


def lock_of(table: Path) -> Path:
    """The lock of a table that a killed command resumes from its journal (samples, scores)."""
    return table.with_name(f".{table.stem}{LOCK}")


def first_output(task: Task) -> Input:
    """The first output of a task, as an input of another."""
    return task.outputs[0], task


def log_input(experiment: Experiment, cell: str) -> Input:
    """The training log of a cell."""
    return experiment.files.training_log(cell), train(experiment, cell)


def score_inputs(experiment: Experiment, policy: str, suite: str) -> list[Input]:
    """The scores of a policy on a suite, a file for each block."""
    return [first_output(score(experiment, policy, suite, n)) for n in experiment.blocks()]


def scored_inputs(experiment: Experiment, policy: str, suite: str) -> list[Input]:
    """The samples and scores of a policy on a suite, two files for each block."""
    files = []
    for block in experiment.blocks():
        files.append(first_output(sample(experiment, policy, suite, block)))
        files.append(first_output(score(experiment, policy, suite, block)))
    return files


def judge_inputs(experiment: Experiment, verifier: str) -> list[Input]:
    """The files of the judge model, if the verifier is one; otherwise none."""
    if verifier != "xverify":
        return []
    fetching = fetch_judge(experiment)
    return [(path, fetching) for path in fetching.outputs]


def every_curve(experiment: Experiment) -> list[Input]:
    """The curves of every policy of the grid."""
    return [
        first_output(curves(experiment, policy, suite)) for policy, suite in experiment.evaluations
    ]


def results(experiment: Experiment) -> list[Input]:
    """The problems, policies, logs, samples, scores and curves: all but tables and figures."""
    files = _problems(experiment, experiment.data_sets)
    for policy in experiment.policies:
        files.append(first_output(policy_task(experiment, policy)))
    for cell in experiment.cells:
        files.append(log_input(experiment, cell))
    for policy, suite in experiment.evaluations:
        files += scored_inputs(experiment, policy, suite)
    return files + every_curve(experiment)


def _problems(experiment: Experiment, data_sets: Iterable[str]) -> list[Input]:
    """The file with the problems of each data set."""
    return [first_output(prepare(experiment, name)) for name in data_sets]


def source_settings(experiment: Experiment, name: str) -> Settings:
    """The settings that decide the problems of a data set, before it is cut to the first ones.

    Raises: InputError for a file of the user that cannot be read.
    """
    data_set = experiment.data_set(name)
    # The expected counts and hash check the rows and do not change them. The columns at this level
    # belong to `file`; a data set of the hub has its columns in `hub`.
    unused: dict[str, Any] = {"label": True, "hub": {"rows", "without_answer", "content_sha256"}}
    if data_set.file is None:
        unused |= dict.fromkeys(Columns.model_fields, True)
    if data_set.reasoning_gym is None:  # the key is newer than results of other data sets
        unused["reasoning_gym"] = True
    settings = data_set.model_dump(mode="json", exclude=unused)
    if data_set.columns.exclude is not None:
        settings["excluded"] = source_settings(experiment, data_set.columns.exclude)
    if data_set.file is not None:
        path = experiment.root / data_set.file
        try:
            settings["content"] = digest(path)
        except OSError as error:
            key = f"{experiment.key_of(name)}.file"
            raise InputError(f"{path}: cannot be read ({error.strerror}; {key})") from None
    if data_set.generated is not None:
        settings["generator"] = GENERATOR_REVISION
    if data_set.reasoning_gym is not None:
        settings["version"] = REASONING_GYM
    return settings


def dtype_settings(config: Config) -> Settings:
    """The data type of published models, unless it is that of the device.

    Devices are no settings: they differ by rounding, and a training may move to another one.
    """
    return {} if config.local.dtype == "auto" else {"dtype": config.local.dtype}


def verifier_settings(
    config: Config | None, verifier: str, extract: tuple[str, ...] | None = None
) -> Settings:
    """The settings that decide verdicts, without the address and limits of a judge's server.

    Args:
        extract: where the answer may stand in a response; default: as the config says.
    """
    settings: Settings = {"verifier": verifier}
    if verifier in VERIFIER_VERSIONS:
        # The key is "rules" for every verifier: another one would make all results out of date.
        settings["rules"] = VERIFIER_VERSIONS[verifier]
    # Only if it is not the default, because another key would make all results out of date.
    extract = extract or (config.extract if config else BOX_ONLY)
    if extract != BOX_ONLY and verifier in EXTRACTING:
        settings["extract"] = list(extract)
    if verifier == "xverify" and config and config.xverify:
        judge = config.xverify.model_dump(mode="json", include={"prompt", "model", "revision"})
        settings["xverify"] = judge | {"sampling": JUDGE_SAMPLING}
    return settings


def reward_settings(config: Config, name: str) -> Settings:
    """The settings that decide a reward: the version of the user's function, or the discount."""
    if name in OWN_REWARDS:
        return {"version": OWN_REWARDS[name].version}
    if name == "binary":
        return {}
    return {"length_discount": config.rewards.length_discount}


def own_code(*items: Objective | Reward | Verifier | None) -> tuple[Path, ...]:
    """The files of the user that define the functions of objectives, rewards and verifiers."""
    files = []
    for item in items:
        file = file_of(item.function) if item is not None else None
        if file is not None:
            files.append(file)
    return tuple(dict.fromkeys(files))


def counted(what: str, names: Sequence[Any]) -> Settings:
    """Settings that stand for a long list: its length and its fingerprint.

    They keep the message about other settings short.
    """
    return {what: len(names), "names": fingerprint(list(names))}
