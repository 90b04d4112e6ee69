"""The `rspo` command: every box of the DAG, and everything works without Snakemake too.

rspo prepare linear
rspo contamination
rspo pretrain small
rspo train small--rspo-pass--k4--n16--s0
rspo sample small--rspo-pass--k4--n16--s0 linear
rspo score small--rspo-pass--k4--n16--s0 linear
rspo curves small--rspo-pass--k4--n16--s0 standard
rspo figure fig_scalability
rspo claims
rspo trace results/tiny/figures/fig_scalability.pdf
"""

import argparse
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any, NoReturn

import yaml

import rspo
from rspo.config.experiment import Experiment
from rspo.config.load import merge
from rspo.core.errors import InputError, LostProcess
from rspo.core.locks import exclusive_lock
from rspo.core.signals import STOPPED_STATUS, Stopped, accept_requests
from rspo.core.slurm_job import is_preempted, requeue
from rspo.rewards import NEED_JUDGE, VERIFIERS

STANDARD_OUTPUT = 1  # file descriptor
MIRROR = "folder with the hub's names, instead of the hub"
BLOCK = "only this block of the samples, from 0 (default: all of evaluation.samples)"

# What each import costs decides where it stands: a command imports what it needs, so that
# `rspo status` answers at once and scoring does not load torch.


def prepare(arguments: argparse.Namespace) -> None:
    from rspo.datasets.prepare import prepare as prepare_data_set

    prepare_data_set(_experiment(arguments), arguments.data_set, arguments.mirror)


def contamination(arguments: argparse.Namespace) -> None:
    from rspo.datasets.contamination import write_contamination_table

    write_contamination_table(_experiment(arguments))


def pretrain(arguments: argparse.Namespace) -> None:
    from rspo.training.pretraining import make_base_policy

    _use_one_thread()
    make_base_policy(_experiment(arguments), arguments.model, arguments.mirror)


def train(arguments: argparse.Namespace) -> None:
    from rspo.status import is_finished
    from rspo.training.origin import remove_checkpoints

    accept_requests()
    experiment = _experiment(arguments)
    experiment.cell(arguments.cell)
    wanted = arguments.anew or arguments.print_config
    if not wanted and is_finished(experiment, arguments.cell):
        if experiment.checkpoint(arguments.cell).exists():  # a kill came while it was removed
            with exclusive_lock(experiment.folder(arguments.cell)):
                remove_checkpoints(experiment.checkpoint(arguments.cell))
        print(f"{arguments.cell} is finished; --anew trains it once more, to replace it at the end")
        return
    verl = experiment.config.engine == "verl"
    if arguments.print_config:
        if not verl:
            raise InputError("--print-config shows the config of verl; found engine = 'local'")
        from rspo.training.verl.run import config_text

        print(config_text(experiment, arguments.cell), end="")
        return
    from rspo.slurm.snakemake_patches import renew_records
    from rspo.training.train import train as train_cell

    if not verl:
        _use_one_thread()
    renew = partial(renew_records, experiment, arguments.cell)
    train_cell(experiment, arguments.cell, before_cleanup=renew)


def sample(arguments: argparse.Namespace) -> None:
    from rspo.evaluation.sample import sample_benchmark

    experiment = _experiment(arguments)
    if experiment.config.sampler == "torch":
        _use_one_thread()
    _skip_pandas()
    sample_benchmark(experiment, arguments.policy, arguments.benchmark, arguments.block)


def score(arguments: argparse.Namespace) -> None:
    from rspo.evaluation import score

    _skip_pandas()
    if arguments.responses is None:
        _need(arguments, "score", "policy", "benchmark", instead="--responses")
        score.score(_experiment(arguments), arguments.policy, arguments.benchmark, arguments.block)
        return
    _need(arguments, "score --responses", "output")
    score.score_responses(
        arguments.responses,
        arguments.output,
        arguments.verifier,
        arguments.problem_column,
        arguments.answer_column,
        arguments.response_column,
        _experiment(arguments) if arguments.verifier in NEED_JUDGE else None,
    )


def fetch_prompt(arguments: argparse.Namespace) -> None:
    from rspo.rewards.xverify.prompt import fetch_prompt

    experiment = _experiment(arguments)
    settings = experiment.config.xverify
    if settings is None:
        raise InputError(f"config/{experiment.scale}.yaml has no section xverify; nothing to fetch")
    fetch_prompt(settings.prompt, experiment.judge_prompt)


def fetch_judge(arguments: argparse.Namespace) -> None:
    from rspo.rewards.xverify.model import fetch_judge

    fetch_judge(_experiment(arguments), arguments.mirror)


def agreement(arguments: argparse.Namespace) -> None:
    from rspo.evaluation.agreement import write_agreement

    write_agreement(_experiment(arguments))


def curves(arguments: argparse.Namespace) -> None:
    from rspo.evaluation import curves

    _skip_pandas()
    if arguments.scores is None:
        _need(arguments, "curves", "policy", "suite", instead="--scores")
        curves.curves(_experiment(arguments), arguments.policy, arguments.suite)
        return
    _need(arguments, "curves --scores", "output")
    curves.curves_of_scores(arguments.scores, arguments.output, arguments.k)


def gradients(arguments: argparse.Namespace) -> None:
    from rspo.evaluation.gradients import write_gradients

    _use_one_thread()
    _skip_pandas()
    write_gradients(_experiment(arguments), arguments.policy)


def tables(arguments: argparse.Namespace) -> None:
    from rspo.evaluation.curves_table import write_curves_table

    write_curves_table(_experiment(arguments))


def claims(arguments: argparse.Namespace) -> None:
    from rspo.claims.write import write_claims

    _skip_pandas()
    write_claims(_experiment(arguments))


def figure(arguments: argparse.Namespace) -> None:
    from rspo.figures import draw

    draw(_experiment(arguments), arguments.name)


def report(arguments: argparse.Namespace) -> None:
    from rspo.report import write_report

    write_report(_experiment(arguments))


def trace(arguments: argparse.Namespace) -> None:
    from rspo.core.trace import trace as lines_of_trace

    for line in lines_of_trace(arguments.file):
        print(line)


def status(arguments: argparse.Namespace) -> None:
    from rspo.status import follow, table

    experiment = _experiment(arguments)
    if arguments.follow:
        follow(experiment)
    else:
        print(table(experiment))


def plan(arguments: argparse.Namespace) -> None:
    from rspo.slurm.plan import text

    print(text(_experiment(arguments)))


def cost(arguments: argparse.Namespace) -> None:
    from rspo.cost import summary, write_cost_table

    experiment = _experiment(arguments)
    write_cost_table(experiment)
    print(summary(experiment))


def doctor(arguments: argparse.Namespace) -> None:
    from rspo.slurm.doctor import report

    if not report(_experiment(arguments)):
        raise SystemExit(2)


def _experiment(arguments: argparse.Namespace) -> Experiment:
    return Experiment.load(arguments.scale, parse_overrides(arguments.set))


def _need(arguments: argparse.Namespace, command: str, *names: str, instead: str = "") -> None:
    """Raises: InputError if one of the named arguments was not given."""
    missing = [name for name in names if getattr(arguments, name) is None]
    if missing:
        either = f", or {instead} FILE --output FILE" if instead else ""
        raise InputError(f"rspo {command} needs {' and '.join(names)}{either}")


def _use_one_thread() -> None:
    """One thread a process: two small models side by side are faster than one after the other,
    and the same number of threads is part of "the same cell gives the same file"."""
    import torch

    torch.set_num_threads(1)


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _skip_pandas() -> None:
    """pyarrow imports pandas for half a second, only to know its types, the first time it is asked
    for an array. Not in the short commands that write tables, hundreds of times in a run."""
    import pyarrow

    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pyarrow.array([])
    finally:
        sys.meta_path.remove(finder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rspo", description="Risk-seeking policy optimization: every step of the experiments."
    )
    parser.add_argument("--version", action="version", version=f"rspo {rspo.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(
        name: str, function: Callable[..., None], text: str, of_a_scale: bool = True
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(function=function)
        if not of_a_scale:
            return added
        added.add_argument(
            "--scale", default="tiny", help="a file config/SCALE.yaml (default: tiny)"
        )
        added.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="override a config key, such as seeds=3 or training.steps=50; may be repeated",
        )
        return added

    added = command("prepare", prepare, "write the problems of a data set")
    added.add_argument("data_set", help="train, validation or a benchmark of the config")
    added.add_argument("--mirror", type=Path, help=MIRROR)

    command("contamination", contamination, "write which problems stand in more than one set")

    added = command("pretrain", pretrain, "make a model's base policy")
    added.add_argument("model", help="a model of the config")
    added.add_argument("--mirror", type=Path, help=MIRROR)

    added = command("train", train, "train one cell, or go on from its checkpoint")
    added.add_argument(
        "cell", help="such as small--rspo-pass--k4--n16--s0; `rspo status` lists them"
    )
    added.add_argument(
        "--anew", action="store_true", help="also a cell that is finished with these settings"
    )
    added.add_argument(
        "--print-config",
        action="store_true",
        help="engine verl: show verl's whole config, checked by verl, and train nothing",
    )

    added = command("sample", sample, "draw a policy's responses to a benchmark")
    added.add_argument("policy", help="a cell, or a base policy such as small--base")
    added.add_argument("benchmark")
    added.add_argument("--block", type=int, help=BLOCK)

    added = command("score", score, "judge a policy's samples, or any file of responses")
    added.add_argument("policy", nargs="?")
    added.add_argument("benchmark", nargs="?")
    added.add_argument("--block", type=int, help=BLOCK)
    added.add_argument(
        "--responses", type=Path, help="JSON lines, one response each; several to a problem"
    )
    added.add_argument("--output", type=Path, help="with --responses: scores table, .parquet")
    added.add_argument(
        "--verifier",
        default="math_verify",
        choices=VERIFIERS,
        help="with --responses: math_verify (default), exact, xverify or cascade",
    )
    added.add_argument("--problem-column", default="problem", help="with --responses")
    added.add_argument("--answer-column", default="answer", help="with --responses")
    added.add_argument("--response-column", default="response", help="with --responses")

    command("fetch-prompt", fetch_prompt, "fetch the prompt of the judge xVerify")

    added = command("fetch-judge", fetch_judge, "fetch the model of the judge xVerify")
    added.add_argument("--mirror", type=Path, help=MIRROR)

    command("agreement", agreement, "compare two verifiers on the base policies' samples")

    added = command("curves", curves, "Pass@k and Max@k of a policy, or of any scores")
    added.add_argument("policy", nargs="?")
    added.add_argument("suite", nargs="?")
    added.add_argument("--scores", type=Path, help="a table that `rspo score` wrote")
    added.add_argument("--output", type=Path, help="with --scores: .parquet or .csv")
    added.add_argument(
        "--k", type=int, nargs="+", help="with --scores; default: 1, 2, 4, ... up to half of N"
    )

    added = command("gradients", gradients, "signal and variance of every objective's gradient")
    added.add_argument("policy", help="a cell, or a base policy such as small--base")

    command("tables", tables, "write the curves of all policies as one CSV")

    command("claims", claims, "check the paper's claims on every policy's scores and training logs")

    added = command("figure", figure, "draw a figure as pdf, png and csv")
    added.add_argument("name", help="such as fig_scalability")

    command("report", report, "write the page with everything on it, from what is there")

    added = command("trace", trace, "who made a file, from what, back to data", of_a_scale=False)
    added.add_argument("file", type=Path, help="such as reports/fig_main.pdf")

    command("plan", plan, "jobs, GPU-hours, wall time and disk of what is left to do on a cluster")

    command("cost", cost, "what each policy really used, as a table")

    command("doctor", doctor, "hold slurm/config.yaml against the cluster, and say what to change")

    added = command("status", status, "what is done, what runs, and when it will end")
    added.add_argument("--follow", action="store_true", help="a line every 15 seconds")
    return parser


def parse_overrides(items: Sequence[str]) -> dict[str, Any]:
    """`["training.steps=5"]` -> `{"training": {"steps": 5}}`; values are read as YAML.

    Raises: InputError for an item that is not KEY=VALUE.
    """
    overrides: dict[str, Any] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise InputError(f"--set {item}: expected KEY=VALUE, such as training.steps=50")
        try:
            found: Any = yaml.safe_load(value)
        except yaml.YAMLError:
            raise InputError(f"--set {item}: {value!r} is not YAML") from None
        for section in reversed(key.split(".")):
            found = {section: found}
        overrides = merge(overrides, found)
    return overrides


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it did, 2 for what the user can mend (said in one line).

    75 for a training that stopped on request and is to be tried again.
    """
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        arguments.function(arguments)
        sys.stdout.flush()
    except InputError as error:
        print(f"rspo: error: {error}", file=sys.stderr)
        return 2
    except LostProcess as error:
        print(f"rspo: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno is None:
            raise
        if isinstance(error, BrokenPipeError) and _nobody_reads_output():
            return 128 + signal.SIGPIPE  # as of any program before `| head`, which is no error
        print(f"rspo: error: {error.filename or ''}: {os.strerror(error.errno)}", file=sys.stderr)
        return 1
    except Stopped as stopped:
        print(f"rspo: {stopped}", file=sys.stderr, flush=True)
        if said := requeue():
            print(f"rspo: {said}", file=sys.stderr)
        return STOPPED_STATUS
    except KeyboardInterrupt as interrupt:
        print(f"rspo: {interrupt}" if interrupt.args else "rspo: interrupted", file=sys.stderr)
        return 130
    return 0


def _nobody_reads_output() -> bool:
    """Whether standard output is a pipe without a reader; if so, what is left for it is dropped."""
    output = select.poll()
    output.register(STANDARD_OUTPUT, 0)
    closed = any(event & select.POLLERR for _, event in output.poll(0))
    if closed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)
    return closed


def _terminate(signal_number: int, frame: object) -> NoReturn:
    """Let a SIGTERM (Snakemake's, SLURM's) clean up as Ctrl-C does.

    Where it begins a preempted job's grace time, it came to all processes of the job: none of them
    may be left to finish a step, and the job goes back into the queue first, before it has failed.
    """
    if is_preempted():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the next is of the requeue itself
        raise KeyboardInterrupt(requeue())
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
