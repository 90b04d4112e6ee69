"""The commands of the panel Evaluation."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rspo.cli.command import Output, command, use_one_thread
from rspo.cli.options import (
    AnswerColumn,
    Answers,
    BlockNumber,
    CorrectColumn,
    Force,
    Format,
    Ks,
    Mirror,
    Overrides,
    Policy,
    ProblemColumn,
    ResponseColumn,
    Results,
    Scale,
    Suite,
    SuiteOfPolicies,
    has_config,
    load_experiment,
)
from rspo.config.names import EXTRACTIONS, VERIFIERS, Metric
from rspo.core.checkout import named_checkout
from rspo.core.errors import InputError, errors_of
from rspo.core.files import require_output

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment

PANEL = "Evaluation"
OtherVerifier = Annotated[
    str | None,
    typer.Option(
        "--verifier",
        metavar="NAME",
        help="Verify the responses of files again. Default: the verdicts of the files, or `rules`.",
    ),
]


Extract = Annotated[
    str | None,
    typer.Option(
        metavar="PLACES",
        help=f"Where the answer stands, in the order to try: some of {','.join(EXTRACTIONS)}; all "
        "of these as `all`; or `whole`, the whole response. Default: box, or as a config says. "
        "Files that have verdicts are verified again.",
    ),
]


@command(PANEL, "rspo sample small--rspo-pass--k4--n16--s0 standard")
def sample(
    experiment: "Experiment",
    policy: Policy,
    suite: Suite,
    block: BlockNumber = 0,
    force: Force = False,
) -> None:
    """Sample a block of responses of a policy to the problems of a suite."""
    from rspo.evaluation.sample import sample_suite

    if experiment.config.sampler == "torch":
        use_one_thread()
    sample_suite(experiment, policy, suite, block, force)


@command(PANEL, "rspo score small--rspo-pass--k4--n16--s0 standard")
def score(
    experiment: "Experiment",
    policy: Policy,
    suite: Suite,
    block: BlockNumber = 0,
    force: Force = False,
) -> None:
    """Verify a block of samples of a policy on a suite."""
    from rspo.evaluation.score import score

    score(experiment, policy, suite, block, force)


@command(
    PANEL,
    "rspo verify responses.jsonl",
    "rspo verify responses.jsonl.gz --verifier exact --answer-column gold --k 1 --k 8",
    "rspo verify small--base --suite standard --verifier math_verify",
)
def verify(
    responses: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            help="JSON, .csv, .parquet or .eval files of one run, in any layout of "
            "docs/own_files.md; with --suite a policy.",
        ),
    ],
    suite: SuiteOfPolicies = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "--out",
            help="JSON lines to write. Default: FILE.verdicts.jsonl; for a policy, none.",
        ),
    ] = None,
    verifier: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"How to verify: {', '.join(VERIFIERS)}, or one that the config's extensions add. "
            "With several, as rules,math_verify, the first decides.",
        ),
    ] = "rules",
    extract: Extract = None,
    problem_column: ProblemColumn = None,
    answer_column: AnswerColumn = None,
    response_column: ResponseColumn = None,
    correct_column: CorrectColumn = None,
    answers: Answers = None,
    format: Format = None,
    k: Ks = None,
    force: Force = False,
    scale: Scale = None,
    overrides: Overrides = [],  # noqa: B006
    results: Results = None,
) -> str | Iterable[str]:
    """Verify the responses in any file, and print accuracy and Pass@k.

    The output has a line for each response with the answer extracted from it and the verdict. If
    the files have verdicts of other software, prints how often they agree, and where not.

    With --suite, verify the samples of a policy with a second verifier: prints how often it agrees
    with the scores, and responses on which the two differ; the output has all of these.

    --scale, --set and --results select the judge model of xverify, the extensions that may have the
    verifier, and the places of the answer; other verifiers need no config.
    """
    from rspo.evaluation.verify_file import verify_file
    from rspo.formats.source import Reading

    if suite is not None:
        from rspo.evaluation.agreement import agreement

        if len(responses) > 1:
            raise InputError("--suite takes one policy")
        project = load_experiment(scale, overrides, results)
        return agreement(project, str(responses[0]), suite, verifier, output, extract)
    # The config is read only if the user names it, or the verifier may need it: this command also
    # works in other folders.
    experiment = None
    names = {name.strip() for name in verifier.split(",")}
    may_be_extension = not names <= set(VERIFIERS) and has_config(scale)
    if "xverify" in names and not has_config(scale) and not has_config(None):
        raise InputError(
            "--verifier xverify: the config of a scale names the judge model; run this in the "
            f"project's folder{named_checkout()} with --scale paper"
        )
    if "xverify" in names or may_be_extension or scale or overrides:
        experiment = load_experiment(scale, overrides, results)
    reading = Reading(
        format=format,
        problem=problem_column,
        answer=answer_column,
        response=response_column,
        correct=correct_column,
        answers=answers,
    )
    return verify_file(
        responses, output, verifier, reading, k, experiment, replace=force, extract=extract
    )


@command(
    PANEL,
    "rspo pass-at-k samples.jsonl_results.jsonl",
    "rspo pass-at-k mine.csv --problem-column task --correct-column ok --k 1 --k 8",
)
def pass_at_k(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="FILES", help="Files of one run, or with --suite a policy."),
    ],
    suite: SuiteOfPolicies = None,
    problem_column: ProblemColumn = None,
    correct_column: CorrectColumn = None,
    answer_column: AnswerColumn = None,
    response_column: ResponseColumn = None,
    answers: Answers = None,
    format: Format = None,
    verifier: OtherVerifier = None,
    extract: Extract = None,
    k: Ks = None,
    out: Annotated[
        Path | None, typer.Option(help="Table of the estimates (.csv) to write.")
    ] = None,
    scale: Scale = None,
    overrides: Overrides = [],  # noqa: B006
    results: Results = None,
) -> Iterable[str]:
    """Estimate Pass@k, with errors, from verdicts that you have.

    Files without verdicts, but with responses and answers, are verified.
    """
    from rspo.evaluation.pass_at_k_of_files import estimated
    from rspo.evaluation.sides import require_own_verdicts, side_of_files, side_of_policy
    from rspo.formats.source import Reading, all_files

    if out is not None:
        require_output(out, ".csv")
    reading = Reading(
        format, problem_column, answer_column, response_column, correct_column, answers
    )
    if suite is None:
        side = side_of_files(all_files(runs), reading, verifier, extract=extract)
    elif len(runs) == 1:
        require_own_verdicts(verifier, extract)
        side = side_of_policy(load_experiment(scale, overrides, results), str(runs[0]), suite)
    else:
        raise InputError("--suite takes one policy")
    return estimated(side, k, out)


@command(
    PANEL,
    "rspo compare base.verdicts.jsonl trained.verdicts.jsonl --out curves.png",
    "rspo compare 'base/rs*.jsonl' 'trained/rs*.jsonl' --verifier rules",
    "rspo compare small--base small--rspo-pass--k4--n16--s0 --suite standard",
)
def compare(
    first: Annotated[
        Path,
        typer.Argument(help="A file, several as a pattern in quotes, or with --suite a policy."),
    ],
    second: Annotated[Path, typer.Argument(help="Another one.")],
    suite: SuiteOfPolicies = None,
    metric: Annotated[Metric, typer.Option(help="What to compare.")] = "pass_at_k",
    problem_column: ProblemColumn = None,
    correct_column: CorrectColumn = None,
    answer_column: AnswerColumn = None,
    response_column: ResponseColumn = None,
    answers: Answers = None,
    format: Format = None,
    verifier: OtherVerifier = None,
    extract: Extract = None,
    k: Ks = None,
    out: Annotated[
        Path | None, typer.Option(help="Picture of both curves (.png, .pdf or .svg) to write.")
    ] = None,
    scale: Scale = None,
    overrides: Overrides = [],  # noqa: B006
    results: Results = None,
) -> Iterable[str]:
    """Compare two runs or policies, such as a base and a trained one, problem by problem.

    Prints the difference at each k with its interval and p-value, what the second gains at Pass@1
    and pays at the largest k, the k at which the curves cross, and the problems where the two
    differ most. Files without verdicts, but with responses and answers, are verified.
    """
    from rspo.evaluation.compare import compare, pair
    from rspo.evaluation.sides import side_of
    from rspo.formats.source import Reading

    if out is not None:
        require_output(out, ".png", ".pdf", ".svg")
    if first == second or (first.exists() and second.exists() and first.samefile(second)):
        raise InputError(f"{first} would be compared with itself; name two files or policies")
    reading = Reading(
        format, problem_column, answer_column, response_column, correct_column, answers
    )

    def load() -> "Experiment":
        return load_experiment(scale, overrides, results)

    sides = [side_of(name, reading, verifier, suite, load, extract) for name in (first, second)]
    compared = pair(sides, metric, k)
    yield from compare(compared)
    if out is not None:
        from rspo.figures.compared import draw_compared

        draw_compared(compared, out)
        yield ""
        yield f"wrote {out}"


@command(PANEL, "rspo curves small--rspo-pass--k4--n16--s0 standard")
def curves(experiment: "Experiment", policy: Policy, suite: Suite, force: Force = False) -> None:
    """Compute Pass@k and Max@k of a policy on a suite."""
    from rspo.evaluation.curves import curves

    curves(experiment, policy, suite, force)


@command(
    PANEL,
    "rspo diagnose rspo_pass_at_k --k 4 --n 16",
    "rspo diagnose my_file.py:advantages --k 4 --n 8 --check pass_at_k",
)
def diagnose(
    name: Annotated[
        str,
        typer.Argument(
            help="An objective, such as maxpo (docs/objectives.md), or a function of rewards "
            "[..., n] and k, as FILE.py:FUNCTION."
        ),
    ],
    k: Annotated[int | None, typer.Option(min=1, help="Of an objective that has a k.")] = None,
    n: Annotated[int, typer.Option(min=1, help="Responses of a group.")] = 16,
    check: Annotated[
        Literal["pass_at_k"] | None,
        typer.Option(help="Fail unless it is an unbiased gradient of Pass@k, up to a factor."),
    ] = None,
    factor: Annotated[
        float | None,
        typer.Option(help="With --check: fail unless the factor is this number."),
    ] = None,
    scale: Scale = None,
) -> Output:
    """Show what an objective maximizes on 0/1 rewards, and how noisy its gradient is.

    Exact, for a prompt that is solved with probability p: the function F that the expected update
    follows, its slope F', the signal-to-noise ratio of the gradient, and the expected share of zero
    weights; the same after subtracting the group's mean, and after dividing by its deviation too.

    With --check pass_at_k, prints what it maximizes with each k, and ends with status 1 unless it
    is an unbiased gradient of Pass@k. The tolerance follows the dtype that the function returns.
    """
    from rspo.core.own_function import function_of
    from rspo.objectives import OBJECTIVES
    from rspo.objectives.diagnose import diagnose
    from rspo.objectives.unbiased import check_pass_at_k

    if check and k is None:
        raise InputError("--check needs --k")
    if factor is not None and not check:
        raise InputError("--factor needs --check pass_at_k")
    # A name with a colon is FILE.py:FUNCTION; any other is an objective, perhaps of an extension.
    own_function = function_of(name) if ":" in name else None
    if own_function is None:
        _load_extensions(name, scale)
    objective = own_function or name
    if check and k is not None:
        with errors_of("rspo diagnose"):
            answer = check_pass_at_k(objective, k, n, factor)
        print(f"{name}, n = {n}, 0/1 rewards")
        for line in answer.lines:
            print(line)
        return 0 if answer else 1
    with errors_of("rspo diagnose"):
        diagnosis = diagnose(objective, k, n)
    has_k = own_function is not None or OBJECTIVES[name].has_k
    shown_k = f"k = {diagnosis.k}, " if has_k else ""
    return [f"{name}, {shown_k}n = {n}, 0/1 rewards", str(diagnosis)]


def _load_extensions(objective: str, scale: str | None) -> None:
    """Read the config if --scale is given, or if the package does not have the objective.

    The extensions of the config may define it.
    """
    from rspo.objectives import OBJECTIVES

    if scale or (objective not in OBJECTIVES and has_config(scale)):
        load_experiment(scale)


@command(PANEL, "rspo fetch-judge --scale paper")
def fetch_judge(experiment: "Experiment", mirror: Mirror = None, force: Force = False) -> None:
    """Download the judge model xVerify, and its prompt."""
    from rspo.rewards.xverify.download import fetch_judge

    fetch_judge(experiment, mirror, force)
