"""The verifier of a config, ready to use, with a judge if it needs one; and its rewards."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rspo.config.experiment import Experiment
from rspo.config.names import OWN_REWARDS, Reward, VerifiedResponses
from rspo.config.schema import Config
from rspo.core.errors import InputError
from rspo.rewards import Verdict, verify

Floats = NDArray[np.float64]
# responses, answers, questions -> verdicts
Verify = Callable[..., list[Verdict]]
# Registered rewards whose first batch did not depend on the other responses.
_INDEPENDENT: set[Reward] = set()


def rewards_of(
    config: Config,
    name: str,
    correct: NDArray[np.bool_],
    tokens: Sequence[int],
    texts: Callable[[], list[str]],
) -> Floats:
    """The rewards of some responses.

    Args:
        name: "binary": 1 if correct, else 0; "length": less for a correct response that is longer,
            by `rewards.length_discount` for one of maximum length; or a reward that was registered
            (docs/add/reward.md).
        correct, tokens: of each response: whether it is correct, and its length.
        texts: returns their texts, without the end token; only called for registered rewards.

    Returns: (responses,), finite.
    """
    limit = config.sampling.max_response_tokens
    if name == "binary":
        return correct.astype(np.float64)
    lengths = np.array(tokens, dtype=np.int64)
    if name == "length":  # section 5.5 of the paper
        return np.where(correct, 1.0 - config.rewards.length_discount * lengths / limit, 0.0)
    responses = VerifiedResponses(texts(), correct, lengths, limit)
    reward = OWN_REWARDS[name]
    rewards = np.asarray(reward.function(responses), dtype=np.float64)
    if rewards.shape != correct.shape or not np.isfinite(rewards).all():
        raise InputError(
            f"reward {name!r} returned {' '.join(repr(rewards).split()):.80}; "
            f"expected {len(correct)} finite numbers"
        )
    if len(correct) > 1 and reward not in _INDEPENDENT:
        _require_independence(reward, responses, rewards)
        _INDEPENDENT.add(reward)
    return rewards


def _require_independence(reward: Reward, responses: VerifiedResponses, rewards: Floats) -> None:
    """Raises: InputError if the first half of the responses gets other rewards when alone."""
    half = len(rewards) // 2
    alone = VerifiedResponses(
        responses.texts[:half],
        responses.correct[:half],
        responses.tokens[:half],
        responses.max_tokens,
    )
    if not np.allclose(reward.function(alone), rewards[:half], rtol=1e-3):
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

    prompt = experiment.judge_prompt
    template, model = template_in(prompt.read_text(), str(prompt)), experiment.judge_model
    with XVerify(experiment.config.xverify, template, verdicts, model, gpus) as judge:
        yield partial(configured, judge=judge)
