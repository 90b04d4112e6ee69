"""The `rspo` command. Every step of the experiments is one subcommand; none needs Snakemake.

Typer parses the command line; `main` runs the command, and turns errors into a line and a status.
"""

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

# Hundreds of short commands run per paper. Pydantic would search every installed package for
# plugins of its own in each of them.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

import typer
from pydantic import ValidationError

from rspo.config.given import EXPERIMENT_VARIABLE
from rspo.config.merge import parse_overrides
from rspo.config.names import VERIFIERS, Metric
from rspo.config.registered import verifier_names
from rspo.core.errors import InputError, LostProcess, errors_of, require_name
from rspo.core.signals import STOPPED_STATUS, Stopped, accept_requests, end_with_snakemake
from rspo.pipeline.provenance import WRITTEN

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment

# Commands import what they need when they run: `rspo --help` no numpy, and scoring no torch.

STANDARD_OUTPUT = 1  # file descriptor
MOST_NAMED = 3  # paths in one line of output
DATA, TRAINING, EVALUATION = "Data", "Training", "Evaluation"
REPORTING, CLUSTER = "Figures and report", "Cluster"
Output = int | str | Iterable[str] | None  # an exit status, or text or lines to print
Command = Callable[..., Output]
Load = partial["Experiment"]  # of `_load`, with the options as keywords

app = typer.Typer(
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="RSPO: risk-seeking policy optimization for Pass@k and Max@k.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Scale = Annotated[
    str | None,
    typer.Option(help="Read config/SCALE.yaml. Default: tiny.", metavar="SCALE"),
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a config key, such as seeds=3 or training.steps=50. Repeatable.",
    ),
]
Results = Annotated[
    Path | None,
    typer.Option(
        "--results",
        metavar="DIR",
        help="Folder of the results, such as one for trial runs. Default: results/SCALE.",
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace results made with other settings. Trainings start from step 1.",
    ),
]


def _load(
    scale: Scale = None,
    overrides: Overrides = [],  # noqa: B006
    results: Results = None,
) -> "Experiment":
    from rspo.config.experiment import Experiment

    # Snakemake sets `scale`, `set` and `results` for the commands of its rules
    # (workflow/rules/common.smk). An option of the command line replaces each.
    given, by_hand = (
        json.loads(os.environ.get(EXPERIMENT_VARIABLE, "{}")),
        parse_overrides(overrides),
    )
    scale, nested = scale or given.get("scale", "tiny"), by_hand or given.get("set", {})
    if results is None and given.get("results"):
        results = Path(given["results"])
    experiment = Experiment.load(scale, nested, results=results)
    configured = Experiment.load(scale) if by_hand and not experiment.has_own_results else None
    return replace(experiment, as_configured=configured)


def _has_config(scale: str | None) -> bool:
    return Path("config", f"{scale or 'tiny'}.yaml").is_file()


DataSet = Annotated[str, typer.Argument(help="train, validation or a benchmark.")]
Suite = Annotated[str, typer.Argument(help="A suite of benchmarks.")]
Model = Annotated[str, typer.Argument(help="A model of the config.")]
Cell = Annotated[str, typer.Argument(help="A cell of the grid; `rspo status` lists all.")]
Policy = Annotated[str, typer.Argument(help="A cell, or a base policy such as small--base.")]
Ks = Annotated[
    list[int] | None,
    typer.Option(
        "--k",
        help="Repeatable. Default: 1, 2, 4, ... up to the smallest number of responses to a "
        "problem.",
    ),
]
Mirror = Annotated[Path | None, typer.Option(help="Folder to use instead of the Hugging Face hub.")]
BlockNumber = Annotated[
    int, typer.Argument(help="Number of the block of samples; evaluation.block sets its size.")
]


def command(panel: str, *examples: str, calls: str = "") -> Callable[[Command], Command]:
    """Register a function as a subcommand, with examples, in a panel of `rspo --help`.

    A parameter `experiment` becomes the options --scale, --set and --results; so does a parameter
    `load`, which gets a function that reads the config. Typer returns the call, which `main` runs.

    Args:
        calls: "module:function" of this package that gets the arguments by position, instead of a
            body of the command.
    """

    def register(function: Command) -> Command:
        parameters = dict(signature(function).parameters)
        order = list(parameters)
        given = {name for name in ("experiment", "load") if parameters.pop(name, None)}
        loading = dict(signature(_load).parameters) if given else {}
        parameters |= loading

        def parsed(**arguments: Any) -> Callable[[], Output]:
            def call() -> Output:
                load = partial(_load, **{name: arguments.pop(name) for name in loading})
                for name in given:
                    arguments[name] = load() if name == "experiment" else load
                if not calls:
                    return function(**arguments)
                module, _, name = calls.partition(":")
                called: Command = getattr(import_module(f"rspo.{module}"), name)
                return called(*(arguments[name] for name in order))

            return call

        parsed.__signature__ = Signature(list(parameters.values()))  # type: ignore[attr-defined]
        parsed.__annotations__ = {name: item.annotation for name, item in parameters.items()}
        parsed.__doc__ = function.__doc__
        app.command(
            function.__name__.replace("_", "-"),
            rich_help_panel=panel,
            epilog="\n\n  ".join(["[bold]Example:[/bold]", *examples]),
        )(parsed)
        return function

    return register


@command(DATA, "rspo prepare linear", calls="datasets.prepare:prepare")
def prepare(
    experiment: "Experiment", data_set: DataSet, mirror: Mirror = None, force: Force = False
) -> None:
    """Write the problems of a data set."""


@command(TRAINING, "rspo pretrain small")
def pretrain(
    experiment: "Experiment", model: Model, mirror: Mirror = None, force: Force = False
) -> None:
    """Create the base policy of a model: pretrain it, or fetch it from the hub."""
    from rspo.status import display
    from rspo.training.pretraining import make_base_policy

    _use_one_thread()
    with display.shown_in_terminal(experiment):
        make_base_policy(experiment, model, mirror, force)


@command(TRAINING, "rspo train small--rspo-pass--k4--n16--s0")
def train(
    experiment: "Experiment",
    cell: Cell,
    print_config: Annotated[
        bool,
        typer.Option("--print-config", help="Print the full config of verl and train nothing."),
    ] = False,
    force: Force = False,
) -> None:
    """Train one cell, or resume it from its checkpoint."""
    from rspo.training.gpu_memory import require_gpu_memory

    accept_requests()
    require_gpu_memory(experiment, experiment.cell(cell).name)
    verl = experiment.config.engine == "verl"
    if print_config:
        if not verl:
            raise InputError("--print-config needs engine = 'verl'; config has engine = 'local'")
        from rspo.training.verl.run import config_text

        print(config_text(experiment, cell), end="")
    else:
        from rspo.status import display
        from rspo.training.train import train

        if not verl:
            _use_one_thread()
        with display.shown_in_terminal(experiment):
            train(experiment, cell, force)


@command(TRAINING, "rspo status")
def status(experiment: "Experiment") -> str:
    """Show which policies are finished and which are running."""
    from rspo.status.display import table_text

    if experiment.has_own_results and not experiment.results.is_dir():
        raise InputError(f"--results {experiment.results}: no such folder")
    return table_text(experiment)


@command(EVALUATION, "rspo sample small--rspo-pass--k4--n16--s0 standard")
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
        _use_one_thread()
    sample_suite(experiment, policy, suite, block, force)


@command(
    EVALUATION, "rspo score small--rspo-pass--k4--n16--s0 standard", calls="evaluation.score:score"
)
def score(
    experiment: "Experiment",
    policy: Policy,
    suite: Suite,
    block: BlockNumber = 0,
    force: Force = False,
) -> None:
    """Verify a block of samples of a policy on a suite."""


@command(
    EVALUATION,
    "rspo verify responses.jsonl",
    "rspo verify responses.jsonl.gz --verifier exact --answer-column gold --k 1 --k 8",
)
def verify(
    load: Load,
    responses: Annotated[
        Path,
        typer.Argument(help="JSON lines, .csv or .parquet, a response per row."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(help="JSON lines to write. Default: RESPONSES.verdicts.jsonl."),
    ] = None,
    verifier: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"How to verify: {', '.join(VERIFIERS)}, or one that the config's extensions add.",
        ),
    ] = "rules",
    problem_column: Annotated[str, typer.Option(help="Key of the problem.")] = "problem",
    answer_column: Annotated[str, typer.Option(help="Key of the answer.")] = "answer",
    response_column: Annotated[str, typer.Option(help="Key of the response.")] = "response",
    k: Ks = None,
    force: Force = False,
) -> str:
    """Verify the responses in any file, and print accuracy and Pass@k.

    The output has a line for each response with the answer extracted from it and the verdict.

    --scale, --set and --results select the judge model of xverify, and the extensions that may have
    the verifier; other verifiers need no config.
    """
    from rspo.evaluation.verify_file import verify_file

    columns = {"problem": problem_column, "answer": answer_column, "response": response_column}
    own = verifier not in VERIFIERS  # of the config's extensions
    has_config = own and _has_config(load.keywords["scale"])
    experiment = load() if has_config or verifier == "xverify" else None
    require_name(f"verifier {verifier!r}", verifier, verifier_names())
    return verify_file(responses, output, verifier, columns, k, experiment, replace=force)


@command(EVALUATION, "rspo compare mine.verdicts.jsonl theirs.verdicts.jsonl")
def compare(
    first: Annotated[Path, typer.Argument(help="A file of `rspo verify`, or a scores table.")],
    second: Annotated[Path, typer.Argument(help="Another one.")],
    metric: Annotated[Metric, typer.Option(help="What to compare.")] = "pass_at_k",
    k: Ks = None,
) -> Iterable[str]:
    """Compare two files of verified responses, problem by problem.

    Prints the difference at each k with its interval and p-value, and the problems where the two
    differ most.
    """
    from rspo.evaluation.compare import compare

    return compare((first, second), metric, k)


@command(
    EVALUATION,
    "rspo curves small--rspo-pass--k4--n16--s0 standard",
    calls="evaluation.curves:curves",
)
def curves(experiment: "Experiment", policy: Policy, suite: Suite, force: Force = False) -> None:
    """Compute Pass@k and Max@k of a policy on a suite."""


@command(
    EVALUATION,
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
    own = function_of(name) if ":" in name else None
    if not own and (scale or (name not in OBJECTIVES and _has_config(scale))):
        _load(scale)  # its extensions may have the objective
    if check and k is not None:
        with errors_of("rspo diagnose"):
            answer = check_pass_at_k(own or name, k, n, factor)
        print(f"{name}, n = {n}, 0/1 rewards", *answer.lines, sep="\n")
        return 0 if answer else 1
    with errors_of("rspo diagnose"):
        diagnosis = diagnose(own or name, k, n)
    has_k = own or OBJECTIVES[name].has_k
    k_of_cell = f"k = {diagnosis.k}, " if has_k else ""
    return f"{name}, {k_of_cell}n = {n}, 0/1 rewards", str(diagnosis)


@command(EVALUATION, "rspo fetch-judge --scale paper", calls="rewards.xverify.download:fetch_judge")
def fetch_judge(experiment: "Experiment", mirror: Mirror = None, force: Force = False) -> None:
    """Download the judge model xVerify, and its prompt."""


@command(REPORTING, "rspo claims", calls="analysis.write:write_claims")
def claims(experiment: "Experiment", force: Force = False) -> None:
    """Check the claims of the paper on all scores and training logs."""


@command(REPORTING, "rspo study peers", calls="analysis.write:write_study")
def study(
    experiment: "Experiment",
    name: Annotated[str, typer.Argument(help="A study, such as peers.", metavar="STUDY")],
    force: Force = False,
) -> None:
    """Write the tables and the page of a study, a comparison beyond the paper's."""


@command(REPORTING, "rspo figure fig_scalability", calls="figures:draw")
def figure(
    experiment: "Experiment",
    name: Annotated[str, typer.Argument(help="A figure of the config, such as fig_scalability.")],
    force: Force = False,
) -> None:
    """Draw one figure as PDF, PNG and CSV."""


@command(REPORTING, "rspo report", calls="report.page:write_report")
def report(experiment: "Experiment", force: Force = False) -> None:
    """Write the report page from the results that exist."""


@command(
    REPORTING,
    "rspo evidence add peers",
    "rspo evidence page peers",
    calls="report.published:run",
)
def evidence(
    experiment: "Experiment",
    action: Annotated[
        Literal["add", "page"],
        typer.Argument(help="add: take finished policies. page: write the page."),
    ],
    page: Annotated[str, typer.Argument(help="results, or a study.")],
    force: Force = False,
) -> None:
    """Keep what a page of docs/ rests on in one small file, and make the page from it."""


@command(
    REPORTING, "rspo trace reports/fig_scalability.pdf --depth 1", calls="pipeline.trace:trace"
)
def trace(
    file: Annotated[Path, typer.Argument(help="Any result, such as reports/fig_main.pdf.")],
    depth: Annotated[
        int | None, typer.Option(min=0, help="Levels of inputs to show. Default: all.")
    ] = None,
) -> None:
    """Show how a file was made: code, settings and inputs, back to the data."""


@command(
    CLUSTER,
    "rspo plan --scale paper",
    "rspo plan --scale paper --budget 200",
)
def plan(
    experiment: "Experiment",
    budget: Annotated[
        float | None,
        typer.Option(min=0, help="Instead, the claims so many GPU-hours answer.", metavar="HOURS"),
    ] = None,
) -> str:
    """Estimate jobs, GPU hours, time and disk space of what is left to run."""
    from rspo.plan import budget as claims
    from rspo.plan import jobs

    return jobs.text(experiment) if budget is None else claims.text(experiment, budget)


@command(CLUSTER, "rspo cost", calls="pipeline.cost:write_cost_table")
def cost(experiment: "Experiment", force: Force = False) -> None:
    """Write a table of the resources that each policy used."""


@command(CLUSTER, "rspo doctor --scale paper")
def doctor(
    experiment: "Experiment",
    rule: Annotated[
        list[str], typer.Option(hidden=True, help="Set by Snakemake, which knows its rules.")
    ] = [],  # noqa: B006
) -> int:
    """Check config, software, profile and cluster for all that would stop a job.

    Snakemake runs it before it submits the first job.
    """
    from rspo.slurm.doctor import report

    return 0 if report(experiment, rule) else 2


def _use_one_thread() -> None:
    """Use one thread: results depend on it, and two processes are faster than two threads."""
    import torch

    torch.set_num_threads(1)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    0: success. 1: failure. 2: an error that the user can fix, reported in one line. 75: training
    stopped on request and can be resumed. 130: interrupted.
    """
    signal.signal(signal.SIGTERM, _terminate)
    end_with_snakemake()
    WRITTEN.clear()
    try:
        output = _parse(list(sys.argv[1:] if argv is None else argv))()
        status = output if isinstance(output, int) else 0
        if not isinstance(output, int):
            for text in [output] if isinstance(output, str) else output or ():
                print(text)
        if argv is None:
            # The results are complete. A signal while Python exits would end the process as killed,
            # and Snakemake removes the results of such a job.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
        _report_written()
        sys.stdout.flush()
        return status
    except InputError as error:
        return _fail(2, f"error: {error}")
    except LostProcess as error:
        return _fail(1, f"error: {error}")
    except Stopped as stopped:
        return _fail(STOPPED_STATUS, str(stopped))
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads_output():
            return 128 + signal.SIGPIPE  # as any program before `| head`, which is no error
        if error.errno is None:
            raise
        file = f"{error.filename}: " if error.filename else ""
        return _fail(1, f"error: {file}{os.strerror(error.errno)}")
    except KeyboardInterrupt:
        return _fail(130, "interrupted")


def _report_written() -> None:
    """Print one line that names the results that the command wrote, if any."""
    paths = [str(path) for path in dict.fromkeys(WRITTEN)]
    if len(paths) > MOST_NAMED:
        print(f"wrote {len(paths)} files in {os.path.commonpath(paths)}")
    elif paths:
        print(f"wrote {', '.join(paths)}")


def _parse(words: list[str]) -> Callable[[], Output]:
    """Parse a command line and return the call that runs it."""
    try:
        result = app(words or ["--help"], prog_name="rspo", standalone_mode=False)
    except typer.TyperException as error:
        message = " ".join(error.format_message().split())
        if isinstance(error.__cause__, ValidationError):  # its words lack the value
            message += f"; got {error.__cause__.errors()[0]['input']!r}"
            if error.param.multiple:  # type: ignore[attr-defined]
                message += "; repeat it for several: --k 2 --k 4"
        raise InputError(message) from None
    return result if callable(result) else lambda: result


def _fail(status: int, message: str) -> int:
    print(f"rspo: {message}", file=sys.stderr, flush=True)
    return status


def _nobody_reads_output() -> bool:
    """Whether standard output is a pipe without a reader; if so, drop the output that is left."""
    output = select.poll()
    output.register(STANDARD_OUTPUT, 0)
    closed = any(event & select.POLLERR for _, event in output.poll(0))
    if closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)
    return closed


def _terminate(signal_number: int, frame: object) -> NoReturn:
    """Let a SIGTERM of Snakemake or SLURM clean up as Ctrl-C does."""
    raise KeyboardInterrupt
