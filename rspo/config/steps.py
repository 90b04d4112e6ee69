"""The steps of the pipeline up to the tables: inputs, outputs, and the settings that decide them.

The `rspo` command, the params of Snakemake's rules, `rspo status` and the checks of inputs all read
these functions. Steps of figures, claims, studies and the report are completed beside their code.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from rspo.config import fingerprints
from rspo.config.experiment import BASE, Experiment, base_name
from rspo.config.names import STUDIES_WITH_GRADIENTS
from rspo.core.errors import InputError
from rspo.core.locks import LOCK
from rspo.core.step import Settings, Step

Input = tuple[Path, Step]  # a file or folder, and the step that writes it
Inputs = Callable[[], Sequence[Input]]


def prepare(experiment: Experiment, data_set: str) -> Step:
    return new_step(experiment, "prepare", [data_set], [experiment.problems(data_set)])


def contamination(experiment: Experiment) -> Step:
    def inputs() -> list[Input]:
        return [first_output(prepare(experiment, name)) for name in experiment.data_sets]

    return new_step(experiment, "contamination", [], [experiment.table("contamination")], inputs)


def pretrain(experiment: Experiment, model: str) -> Step:
    base = base_name(model)
    outputs = [experiment.policy(base)]
    return new_step(experiment, "pretrain", [model], outputs, lock=experiment.folder(base) / LOCK)


def train(experiment: Experiment, cell: str) -> Step:
    def inputs() -> list[Input]:
        base = policy_step(experiment, base_name(experiment.cell(cell).model))
        judge = judge_inputs(experiment, experiment.of_cell(cell).config.verifier)
        return [first_output(base), first_output(prepare(experiment, "train")), *judge]

    outputs = [experiment.policy(cell), experiment.training_log(cell)]
    lock = experiment.folder(cell) / LOCK
    return new_step(experiment, "train", [cell], outputs, inputs, lock=lock)


def sample(experiment: Experiment, policy: str, suite: str, block: int) -> Step:
    def inputs() -> list[Input]:
        return [policy_input(experiment, policy), *_suite_inputs(experiment, suite)]

    output, words = experiment.samples(policy, suite, block), [policy, suite, str(block)]
    return new_step(experiment, "sample", words, [output], inputs, suite, _lock_of(output))


def score(experiment: Experiment, policy: str, suite: str, block: int) -> Step:
    def inputs() -> list[Input]:
        return [
            first_output(sample(experiment, policy, suite, block)),
            *_suite_inputs(experiment, suite),
            *judge_inputs(experiment, experiment.config.verifier),
        ]

    output, words = experiment.scores(policy, suite, block), [policy, suite, str(block)]
    return new_step(experiment, "score", words, [output], inputs, suite, _lock_of(output))


def _lock_of(block: Path) -> Path:
    return block.with_name(f".{block.stem}{LOCK}")


def curves(experiment: Experiment, policy: str, suite: str) -> Step:
    def inputs() -> list[Input]:
        return score_inputs(experiment, policy, suite)

    outputs = [experiment.curves(policy, suite)]
    return new_step(experiment, "curves", [policy, suite], outputs, inputs)


def tables(experiment: Experiment) -> Step:
    def inputs() -> list[Input]:
        return [first_output(curves(experiment, *pair)) for pair in experiment.evaluations]

    return new_step(experiment, "tables", [], [experiment.table("curves")], inputs)


def answers(experiment: Experiment) -> Step:
    def inputs() -> list[Input]:
        pairs = experiment.evaluations
        return [table for pair in pairs for table in scored_inputs(experiment, *pair)]

    return new_step(experiment, "answers", [], [experiment.table("answers")], inputs)


def cost(experiment: Experiment) -> Step:
    """Its inputs are the curves that exist: it counts what has been used so far."""

    def inputs() -> list[Input]:
        return [pair for pair in tables(experiment).inputs() if pair[0].is_file()]

    return new_step(experiment, "cost", [], [experiment.table("cost")], inputs)


def agreement(experiment: Experiment) -> Step:
    def inputs() -> list[Input]:
        settings = experiment.config.agreement
        bases = [pair for pair in experiment.evaluations if experiment.is_base(pair[0])]
        return [
            *judge_inputs(experiment, settings.against),
            *(one for pair in bases for one in scored_inputs(experiment, *pair, settings.samples)),
            *(one for _, suite in bases for one in _suite_inputs(experiment, suite)),
        ]

    outputs = [experiment.table("agreement"), experiment.table("disagreements")]
    return new_step(experiment, "agreement", [], outputs, inputs)


def gradients(experiment: Experiment, policy: str, study: str = "") -> Step:
    def inputs() -> list[Input]:
        problems = first_output(prepare(experiment, "train"))
        judge = judge_inputs(experiment, experiment.config.verifier)
        return [policy_input(experiment, policy), problems, *judge]

    words = [policy, "--study", study] if study else [policy]
    outputs = [experiment.gradients(policy, study)]
    return new_step(experiment, "gradients", words, outputs, inputs, study)


def claims(experiment: Experiment, inputs: Inputs = tuple) -> Step:
    """Args: inputs: the scores and logs that the claims rest on (`rspo.claims`)."""
    names = ("claims.csv", "claims.md", "claim_comparisons.csv")
    outputs = [experiment.reports / name for name in names]
    return new_step(experiment, "claims", [], outputs, inputs)


def study(experiment: Experiment, name: str) -> Step:
    """Its inputs: the scores of its policies, base policies included, and the logs of its cells."""

    def inputs() -> list[Input]:
        suite, bases = experiment.grid_entry(name).suite, experiment.bases_of(name)
        policies = experiment.policies_of(name)
        measured = bases if name in STUDIES_WITH_GRADIENTS else []
        return [
            *(one for policy in policies for one in score_inputs(experiment, policy, suite)),
            *(log_input(experiment, cell.name) for cell in experiment.cells_of(name)),
            *(first_output(gradients(experiment, base, name)) for base in measured),
        ]

    table = experiment.table(name)
    return new_step(experiment, "study", [name], [table, table.with_suffix(".md")], inputs)


def report(experiment: Experiment, inputs: Inputs = tuple) -> Step:
    """Args: inputs: every file that the report reads (`rspo.report`)."""
    return new_step(experiment, "report", [], [experiment.reports / "report.html"], inputs)


def fetch_prompt(experiment: Experiment) -> Step:
    return new_step(experiment, "fetch-prompt", [], [experiment.judge_prompt])


def fetch_judge(experiment: Experiment) -> Step:
    """Raises: InputError if the config has no model to download."""
    folder = experiment.judge_model
    if folder is None:
        raise InputError(
            f"config/{experiment.scale}.yaml: nothing to fetch; expected xverify.model with the id "
            "of a model on the hub, and xverify.url = null"
        )
    return new_step(experiment, "fetch-judge", [], [folder])


def new_step(
    experiment: Experiment,
    command: str,
    words: Sequence[str],
    outputs: Sequence[Path],
    inputs: Inputs = tuple,
    name: str | None = None,
    lock: Path | None = None,
    settings: Callable[[Experiment], Settings] | None = None,
) -> Step:
    """A step of an experiment.

    Args:
        command, words: of `rspo`, and its arguments.
        name: of `fingerprints.settings`, where it is not the first word.
        settings: those of an experiment. Default: `fingerprints.settings`.
    """

    def settings_of(one: Experiment) -> Settings:
        named = next(iter(words), "") if name is None else name
        return settings(one) if settings else fingerprints.settings(one, command, named)

    configured = None
    if experiment.as_configured is not None:
        try:
            configured = settings_of(experiment.as_configured)
        except InputError:  # a cell, model or data set that only the command line adds
            configured = None
    text = experiment.command(command, *words)
    return Step(text, tuple(outputs), settings_of(experiment), inputs, lock, configured)


def policy_step(experiment: Experiment, policy: str) -> Step:
    """The step that makes a policy, of a cell or a model."""
    if experiment.is_base(policy):
        return pretrain(experiment, policy.removesuffix(f"--{BASE}"))
    return train(experiment, policy)


def first_output(step: Step) -> Input:
    """The first output of a step, as an input of another."""
    return step.outputs[0], step


def policy_input(experiment: Experiment, policy: str) -> Input:
    return first_output(policy_step(experiment, policy))


def log_input(experiment: Experiment, cell: str) -> Input:
    return experiment.training_log(cell), train(experiment, cell)


def score_inputs(experiment: Experiment, policy: str, suite: str) -> list[Input]:
    blocks = experiment.blocks()
    return [first_output(score(experiment, policy, suite, block)) for block in blocks]


def scored_inputs(
    experiment: Experiment, policy: str, suite: str, first: int | None = None
) -> list[Input]:
    """The samples and the scores of a policy on a suite.

    Args:
        first: only the blocks with the first `first` samples of each problem.
    """
    return [
        first_output(step(experiment, policy, suite, block))
        for block in experiment.blocks(first)
        for step in (sample, score)
    ]


def judge_inputs(experiment: Experiment, verifier: str) -> list[Input]:
    """The files that decide a judge model's verdict besides the response and the answers."""
    if not experiment.config.needs_judge(verifier):
        return []
    model = [] if experiment.judge_model is None else [first_output(fetch_judge(experiment))]
    return [first_output(fetch_prompt(experiment)), *model]


def _suite_inputs(experiment: Experiment, suite: str) -> list[Input]:
    """The problems of a suite."""
    return [first_output(prepare(experiment, name)) for name in experiment.benchmarks_of(suite)]
