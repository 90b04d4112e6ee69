"""The verifier of a config, ready to use, with a judge if it needs one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rspo.config.experiment import Experiment
from rspo.config.names import NEED_CONFIG
from rspo.core.errors import InputError
from rspo.rewards import Verdict, verify

# responses, answers, questions -> verdicts
Verify = Callable[..., list[Verdict]]


def verifier_inputs(experiment: Experiment | None, verifier: str) -> list[Path]:
    """Files and folders that decide a verdict besides the response and the answers."""
    if experiment is None or not experiment.config.needs_judge(verifier):
        return []
    model = experiment.judge_model
    return [experiment.judge_prompt, *([model] if model else [])]


@contextmanager
def verifier_of(
    experiment: Experiment | None, verifier: str, verdicts: Path, gpus: Sequence[str] = ()
) -> Iterator[Verify]:
    """`verify` with all arguments set except responses, answers and questions.

    Args:
        experiment: required by the verifiers in `NEED_CONFIG`.
        verifier: one of `rspo.rewards.VERIFIERS`.
        verdicts: where a judge stores its verdicts. The log of its server is written next to it.
        gpus: start one of the judge's servers on each of these, values of CUDA_VISIBLE_DEVICES, and
            wait until they are ready. Default: start one server when it is first needed.

    Raises: InputError if the judge's settings or files are missing, or a server does not start.
    """
    if verifier not in NEED_CONFIG:
        yield partial(verify, verifier=verifier)
        return
    config = experiment.config if experiment else None
    if config is not None and not config.needs_judge(verifier):
        yield partial(verify, verifier=verifier, cascade=config.cascade)
        return
    from rspo.rewards.xverify import XVerify
    from rspo.rewards.xverify.prompt import read_prompt

    if experiment is None or config is None or config.xverify is None:
        raise InputError(
            f"verifier {verifier!r} needs a config with the section xverify, such as --scale paper"
        )
    template = read_prompt(experiment.judge_prompt, experiment.scale)
    model, log = experiment.judge_model, verdicts.with_suffix(".server.log")
    if model is not None and not model.is_dir():
        command = experiment.command("fetch-judge")
        raise InputError(f"{model}: no such folder; `{command}` makes it")
    with XVerify(config.xverify, template, verdicts, log, model, gpus) as judge:
        yield partial(verify, verifier=verifier, judge=judge, cascade=config.cascade)
