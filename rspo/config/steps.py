"""The steps of the pipeline up to the tables: inputs, outputs, and the settings that decide them.

The `rspo` command, the params of Snakemake's rules, `rspo status` and the checks of inputs all read
these functions. Steps of figures, claims, studies and the report stand beside their code.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from rspo.config import fingerprints
from rspo.config.experiment import BASE, Experiment, base_name
from rspo.core.errors import InputError
from rspo.core.step import Settings, Step

Inputs = Sequence[tuple[Path, Step]]


def prepare(experiment: Experiment, data_set: str) -> Step:
    outputs = [experiment.problems(data_set)]
    settings = _settings("prepare", data_set)
    return new_step(experiment, f"prepare {data_set}", outputs, settings)


def contamination(experiment: Experiment) -> Step:
    def inputs() -> Inputs:
        return [_problems(experiment, name) for name in experiment.data_sets]

    outputs = [experiment.table("contamination")]
    return new_step(experiment, "contamination", outputs, _settings("contamination"), inputs)


def pretrain(experiment: Experiment, model: str) -> Step:
    base = base_name(model)
    settings = _settings("pretrain", model)
    outputs, lock = [experiment.policy(base)], experiment.folder(base)
    return new_step(experiment, f"pretrain {model}", outputs, settings, lock=lock)


def train(experiment: Experiment, cell: str) -> Step:
    def inputs() -> Inputs:
        base = base_name(experiment.cell(cell).model)
        verifier = experiment.of_cell(cell).config.verifier
        return [
            policy_input(experiment, base),
            _problems(experiment, "train"),
            *judge_inputs(experiment, verifier),
        ]

    outputs = [experiment.policy(cell), experiment.training_log(cell)]
    settings, lock = _settings("train", cell), experiment.folder(cell)
    return new_step(experiment, f"train {cell}", outputs, settings, inputs, lock)


def sample(experiment: Experiment, policy: str, suite: str, block: int) -> Step:
    def inputs() -> Inputs:
        benchmarks = experiment.benchmarks_of(suite)
        problems = [_problems(experiment, name) for name in benchmarks]
        return [policy_input(experiment, policy), *problems]

    output = experiment.samples(policy, suite, block)
    settings, words = _settings("sample", suite), f"sample {policy} {suite} {block}"
    return new_step(experiment, words, [output], settings, inputs, output.parent)


def score(experiment: Experiment, policy: str, suite: str, block: int) -> Step:
    def inputs() -> Inputs:
        samples = experiment.samples(policy, suite, block)
        return [
            (samples, sample(experiment, policy, suite, block)),
            *(_problems(experiment, name) for name in experiment.benchmarks_of(suite)),
            *judge_inputs(experiment, experiment.config.verifier),
        ]

    output = experiment.scores(policy, suite, block)
    settings, words = _settings("score", suite), f"score {policy} {suite} {block}"
    return new_step(experiment, words, [output], settings, inputs, output.parent)


def curves(experiment: Experiment, policy: str, suite: str) -> Step:
    def inputs() -> Inputs:
        return score_inputs(experiment, policy, suite)

    outputs = [experiment.curves(policy, suite)]
    return new_step(experiment, f"curves {policy} {suite}", outputs, _settings("curves"), inputs)


def tables(experiment: Experiment) -> Step:
    def inputs() -> Inputs:
        return _all_curves(experiment)

    return new_step(experiment, "tables", [experiment.table("curves")], _settings("tables"), inputs)


def answers(experiment: Experiment) -> Step:
    def inputs() -> Inputs:
        return [
            pair
            for policy, suite in experiment.evaluations
            for pair in scored_inputs(experiment, policy, suite)
        ]

    outputs = [experiment.table("answers")]
    return new_step(experiment, "answers", outputs, _settings("answers"), inputs)


def cost(experiment: Experiment) -> Step:
    def inputs() -> Inputs:
        return [pair for pair in _all_curves(experiment) if pair[0].is_file()]

    return new_step(experiment, "cost", [experiment.table("cost")], _settings("cost"), inputs)


def agreement(experiment: Experiment) -> Step:
    def inputs() -> Inputs:
        first, against = experiment.config.agreement.samples, experiment.config.agreement.against
        bases = [pair for pair in experiment.evaluations if experiment.is_base(pair[0])]
        benchmarks = [name for _, suite in bases for name in experiment.benchmarks_of(suite)]
        return [
            *judge_inputs(experiment, against),
            *(
                pair
                for policy, suite in bases
                for pair in scored_inputs(experiment, policy, suite, first)
            ),
            *(_problems(experiment, name) for name in benchmarks),
        ]

    outputs = [experiment.table("agreement"), experiment.table("disagreements")]
    return new_step(experiment, "agreement", outputs, _settings("agreement"), inputs)


def gradients(experiment: Experiment, policy: str, study: str = "") -> Step:
    def inputs() -> Inputs:
        judge = judge_inputs(experiment, experiment.config.verifier)
        return [policy_input(experiment, policy), _problems(experiment, "train"), *judge]

    words = f"gradients {policy}" + (f" --study {study}" if study else "")
    outputs = [experiment.gradients(policy, study)]
    return new_step(experiment, words, outputs, _settings("gradients", study), inputs)


def claims(experiment: Experiment, inputs: Callable[[], Inputs] = tuple) -> Step:
    """Args: inputs: the scores and logs that the claims rest on (`rspo.claims`)."""
    names = ("claims.csv", "claims.md", "claim_comparisons.csv")
    outputs = [experiment.reports / name for name in names]
    return new_step(experiment, "claims", outputs, _settings("claims"), inputs)


def study(experiment: Experiment, name: str, inputs: Callable[[], Inputs] = tuple) -> Step:
    """Args: inputs: the scores, logs and gradients that the study rests on (`rspo.studies`)."""
    table = experiment.table(name)
    outputs = [table, table.with_suffix(".md")]
    return new_step(experiment, f"study {name}", outputs, _settings("study", name), inputs)


def fetch_prompt(experiment: Experiment) -> Step:
    outputs = [experiment.judge_prompt]
    return new_step(experiment, "fetch-prompt", outputs, _settings("fetch-prompt"))


def fetch_judge(experiment: Experiment) -> Step:
    """Raises: InputError if the config has no model to download."""
    folder = experiment.judge_model
    if folder is None:
        raise InputError(
            f"config/{experiment.scale}.yaml: nothing to fetch; expected xverify.model with the id "
            "of a model on the hub, and xverify.url = null"
        )
    return new_step(experiment, "fetch-judge", [folder], _settings("fetch-judge"))


def new_step(
    experiment: Experiment,
    words: str,
    outputs: Sequence[Path],
    settings: Callable[[Experiment], Settings],
    inputs: Callable[[], Inputs] = tuple,
    lock: Path | None = None,
) -> Step:
    """A step of an experiment.

    Args:
        words: the command without its options, such as "prepare train".
        settings: of an experiment; also called for the one without the command line's settings.
    """
    configured = None
    if experiment.as_configured is not None:
        try:
            configured = settings(experiment.as_configured)
        except InputError:  # a cell, model or data set that only the command line adds
            configured = None
    command = experiment.command(*words.split())
    return Step(command, tuple(outputs), settings(experiment), inputs, lock, configured)


def policy_step(experiment: Experiment, policy: str) -> Step:
    """The step that makes a policy, of a cell or a model."""
    if experiment.is_base(policy):
        return pretrain(experiment, policy.removesuffix(f"--{BASE}"))
    return train(experiment, policy)


def policy_input(experiment: Experiment, policy: str) -> tuple[Path, Step]:
    return experiment.policy(policy), policy_step(experiment, policy)


def log_input(experiment: Experiment, cell: str) -> tuple[Path, Step]:
    return experiment.training_log(cell), train(experiment, cell)


def score_inputs(experiment: Experiment, policy: str, suite: str) -> Inputs:
    return [
        (experiment.scores(policy, suite, block), score(experiment, policy, suite, block))
        for block in experiment.blocks()
    ]


def scored_inputs(
    experiment: Experiment, policy: str, suite: str, first: int | None = None
) -> Inputs:
    """The samples and the scores of a policy on a suite.

    Args:
        first: only the blocks with the first `first` samples of each problem.
    """
    return [
        pair
        for block in experiment.blocks(first)
        for pair in (
            (experiment.samples(policy, suite, block), sample(experiment, policy, suite, block)),
            (experiment.scores(policy, suite, block), score(experiment, policy, suite, block)),
        )
    ]


def judge_inputs(experiment: Experiment, verifier: str) -> Inputs:
    """The files that decide a judge model's verdict besides the response and the answers."""
    if not experiment.config.needs_judge(verifier):
        return []
    model = experiment.judge_model
    prompt = experiment.judge_prompt, fetch_prompt(experiment)
    return [prompt, *([(model, fetch_judge(experiment))] if model else [])]


def _problems(experiment: Experiment, data_set: str) -> tuple[Path, Step]:
    return experiment.problems(data_set), prepare(experiment, data_set)


def _all_curves(experiment: Experiment) -> Inputs:
    return [
        (experiment.curves(policy, suite), curves(experiment, policy, suite))
        for policy, suite in experiment.evaluations
    ]


def _settings(step: str, name: str = "") -> Callable[[Experiment], Settings]:
    return lambda experiment: fingerprints.settings(experiment, step, name)
