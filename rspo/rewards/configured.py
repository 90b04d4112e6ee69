"""Verifies responses and computes their rewards as a config says."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.config.names import BOX_ONLY
from rspo.config.registered import OWN_REWARDS, Reward, VerifiedResponses
from rspo.config.schema import Config
from rspo.core.errors import InputError
from rspo.passk import TOLERANCE, as_floats, precision_of
from rspo.rewards import Verdict, verify

Floats = NDArray[np.float64]
# `rspo.rewards.verify` with the settings of a config: responses, answers, questions -> verdicts.
Verify = Callable[..., list[Verdict]]
# Registered rewards that were checked on their first batch, see `_require_independence`.
_INDEPENDENT: set[Reward] = set()
# The smallest change of a reward, relative to the largest reward, that counts as dependence on the
# other responses.
LEAST_DEPENDENCE = 1e-3


def rewards_of(
    config: Config,
    name: str,
    correct: NDArray[np.bool_],
    tokens: Sequence[int],
    texts: Callable[[], list[str]],
) -> Floats:
    """Compute the rewards of responses.

    Args:
        name: "binary", which is 1 for a correct response and 0 for any other; "length", which also
            subtracts up to `rewards.length_discount` from a correct response, in proportion to its
            length; or the name of a registered reward (docs/add/reward.md).
        correct: (responses,) whether each response is correct.
        tokens: the length of each response in tokens.
        texts: returns the texts of the responses, without the end token. It is only called for
            registered rewards.

    Returns: the rewards, (responses,), which are finite.

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
        # Rewards of low precision may differ by more through rounding.
        error = max(LEAST_DEPENDENCE, TOLERANCE.get(precision_of(returned), 0.0))
        _require_independence(reward, responses, rewards, error)
        _INDEPENDENT.add(reward)
    return rewards


def _require_independence(
    reward: Reward, responses: VerifiedResponses, rewards: Floats, error: float
) -> None:
    """Raises: InputError if the first half of the responses gets other rewards when alone.

    The estimators assume that the reward of a response does not depend on the other responses.

    Args:
        error: differences up to this fraction of the largest reward are allowed, because the
            rounding errors of a reward model depend on how responses are batched.
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


def require_judge(experiment: Experiment | None, verifier: str) -> None:
    """Raises: InputError for the verifier xverify without its section in the config."""
    if verifier == "xverify" and (experiment is None or experiment.config.xverify is None):
        raise InputError(
            "verifier 'xverify' needs a config with the section xverify, such as --scale paper"
        )


@contextmanager
def verifier_of(
    experiment: Experiment | None,
    verifier: str,
    verdicts: Path,
    gpus: Sequence[str] = (),
    extract: Sequence[str] | None = None,
) -> Iterator[Verify]:
    """Yield `verify` with all arguments set except responses, answers and questions.

    At the end of the block, the judge's servers stop.

    Args:
        experiment: the experiment with the settings of xverify; other verifiers need none.
        verdicts: file in which the judge stores its verdicts.
        gpus: values of CUDA_VISIBLE_DEVICES. Start one of the judge's servers on each of these
            GPUs, and wait until all are ready. By default, one server starts when it is needed.
        extract: where the answer may stand in a response; default: as the config says.
    """
    extract = extract or (experiment.config.extract if experiment else BOX_ONLY)
    configured = partial(verify, verifier=verifier, extract=extract)
    if verifier != "xverify":
        yield configured
        return
    require_judge(experiment, verifier)
    assert experiment is not None  # these two are checked above
    assert experiment.config.xverify is not None
    from rspo.rewards.xverify.download import template_in
    from rspo.rewards.xverify.judge import XVerify

    prompt = experiment.files.judge_prompt
    template = template_in(prompt.read_text(), str(prompt))
    model = experiment.judge_model
    with XVerify(experiment.config.xverify, template, verdicts, model, gpus) as judge:
        yield partial(configured, judge=judge)
