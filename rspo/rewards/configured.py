"""The verifier and the rewards of a config."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.config.registered import OWN_REWARDS, Reward, VerifiedResponses
from rspo.config.schema import Config
from rspo.core.errors import InputError
from rspo.passk import TOLERANCE, as_floats, precision_of
from rspo.rewards import Verdict, verify

Floats = NDArray[np.float64]
# responses, answers, questions -> verdicts
Verify = Callable[..., list[Verdict]]
# Registered rewards whose first batch did not depend on the other responses.
_INDEPENDENT: set[Reward] = set()
LEAST_DEPENDENCE = 1e-3  # of a reward on the other responses, relative to the largest reward


def rewards_of(
    config: Config,
    name: str,
    correct: NDArray[np.bool_],
    tokens: Sequence[int],
    texts: Callable[[], list[str]],
) -> Floats:
    """The rewards of some responses.

    Args:
        name: "binary", 1 for a correct response and 0 for others; "length", which subtracts up to
            `rewards.length_discount` from a correct response, in proportion to its length; or a
            reward that was registered (docs/add/reward.md).
        correct: (responses,) whether each is correct.
        tokens: the length of each response.
        texts: returns their texts, without the end token; only called for registered rewards.

    Returns: (responses,), finite.

    Raises: InputError if a registered reward returns anything but a finite number per response.
    """
    limit = config.sampling.max_response_tokens
    if name == "binary":
        return correct.astype(np.float64)
    lengths = np.array(tokens, dtype=np.int64)
    if name == "length":  # section 5.5 of the paper
        return np.where(correct, 1.0 - config.rewards.length_discount * lengths / limit, 0.0)
    responses = VerifiedResponses(texts(), correct, lengths, limit)
    reward = OWN_REWARDS[name]
    returned = reward.function(responses)
    rewards = as_floats(returned)
    if rewards.shape != correct.shape or not np.isfinite(rewards).all():
        raise InputError(
            f"reward {name!r} returned {' '.join(repr(rewards).split()):.80}; "
            f"expected {len(correct)} finite numbers"
        )
    if len(correct) > 1 and reward not in _INDEPENDENT:
        error = max(LEAST_DEPENDENCE, TOLERANCE.get(precision_of(returned), 0.0))
        _require_independence(reward, responses, rewards, error)
        _INDEPENDENT.add(reward)
    return rewards


def _require_independence(
    reward: Reward, responses: VerifiedResponses, rewards: Floats, error: float
) -> None:
    """Raises: InputError if the first half of the responses gets other rewards when alone.

    Args:
        error: differences up to this fraction of the largest reward are allowed, because rewards
            of a model, also those near 0, depend on its batches.
    """
    half = len(rewards) // 2
    first_half = VerifiedResponses(
        responses.texts[:half],
        responses.correct[:half],
        responses.tokens[:half],
        responses.max_tokens,
    )
    differences = abs(as_floats(reward.function(first_half)) - rewards[:half])
    if (differences > error * abs(rewards).max()).any():
        raise InputError(
            f"reward {reward.name!r} gave the first {half} of {len(rewards)} responses other "
            "values when they were alone; the reward of a response must not depend on the others"
        )


@contextmanager
def verifier_of(
    experiment: Experiment | None, verifier: str, verdicts: Path, gpus: Sequence[str] = ()
) -> Iterator[Verify]:
    """`verify` with all arguments set except responses, answers and questions.

    Args:
        experiment: required by xverify.
        verdicts: where a judge stores its verdicts.
        gpus: start one of the judge's servers on each of these, values of CUDA_VISIBLE_DEVICES, and
            wait until they are ready. Default: start one server when it is first needed.
    """
    configured = partial(verify, verifier=verifier)
    if verifier != "xverify":
        yield configured
        return
    if experiment is None or experiment.config.xverify is None:
        raise InputError(
            "verifier 'xverify' needs a config with the section xverify, such as --scale paper"
        )
    from rspo.rewards.xverify.download import template_in
    from rspo.rewards.xverify.judge import XVerify

    prompt = experiment.files.judge_prompt
    template = template_in(prompt.read_text(), str(prompt))
    model = experiment.judge_model
    with XVerify(experiment.config.xverify, template, verdicts, model, gpus) as judge:
        yield partial(configured, judge=judge)
