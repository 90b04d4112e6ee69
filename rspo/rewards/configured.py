"""The verifier that a config names, ready to be asked, with its judge if it needs one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.rewards import NEED_JUDGE, Verdict, verify

# responses, answers, questions -> verdicts
Verify = Callable[..., list[Verdict]]


def verifier_inputs(experiment: Experiment | None, verifier: str) -> list[Path]:
    """Files and folders that decide a verdict besides the response and the answers."""
    if experiment is None or verifier not in NEED_JUDGE:
        return []
    model = experiment.judge_model
    return [experiment.judge_prompt, *([model] if model else [])]


@contextmanager
def verifier_of(experiment: Experiment | None, verifier: str, verdicts: Path) -> Iterator[Verify]:
    """`verify` with everything but responses, answers and questions decided.

    Args:
        experiment: needed by the verifiers that need a judge.
        verifier: a name of `rspo.rewards.VERIFIERS`.
        verdicts: where a judge keeps its verdicts; its server's log lies beside it.

    Raises: InputError if the judge's settings or its files are missing.
    """
    if verifier not in NEED_JUDGE:
        yield partial(verify, verifier=verifier)
        return
    from rspo.rewards.xverify import XVerify
    from rspo.rewards.xverify.prompt import read_prompt

    settings = experiment.config.xverify if experiment else None
    if experiment is None or settings is None:
        raise InputError(
            f"verifier {verifier!r} needs a config with the section xverify, such as --scale paper"
        )
    template = read_prompt(experiment.judge_prompt, experiment.scale)
    model, log = experiment.judge_model, verdicts.with_suffix(".server.log")
    if model is not None and not model.is_dir():
        command = experiment.command("fetch-judge")
        raise InputError(f"{model}: no such folder; `{command}` makes it")
    with XVerify(settings, template, verdicts, log, model) as judge:
        yield partial(verify, verifier=verifier, judge=judge)
