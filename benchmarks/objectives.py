"""Accuracy and speed of `response_weights`, compared with plain Python and with enumeration.

128 prompts x 16 responses is a training step of the paper; 1024 x 64 is 32 times as large. The
rewards are those of the two experiments: binary and length-discounted.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from itertools import combinations
from math import comb

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import Row, median_cpu_seconds, readable
from rspo.objectives import OBJECTIVES, compared, response_weights

SIZES = ((128, 16), (1024, 64))
K = 4
REPEATS = 7
MINIMAL_SPEED_UP = 50  # over plain Python, response by response
TOLERANCE = 1e-12  # of weights
LARGEST_OVERHEAD = 1.5  # of a tensor on the CPU over an array

SCALING_N = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
SCALING_ELEMENTS = 2**20  # rewards of all prompts together

Plain = Callable[[list[float], int], list[float]]


def run() -> list[Row]:
    """Rows on accuracy, on speed, on tensors, and on the time for larger n."""
    return correctness() + speed() + tensors() + scaling()


# --- Plain Python, one prompt at a time -------------------------------------------------------


def plain_pass_at_k(rewards: list[float], k: int) -> list[float]:
    """Theorem 4.3, response by response."""
    n = len(rewards)
    correct = int(sum(rewards))
    return [k / n * reward * comb(n - correct, k - 1) / comb(n - 1, k - 1) for reward in rewards]


def plain_max_at_k(rewards: list[float], k: int) -> list[float]:
    """Theorem C.4, response by response, with a sum over all lower rewards: O(n^2)."""
    n = len(rewards)
    ascending = sorted(rewards)
    weights = []
    for reward in rewards:
        below = bisect_left(ascending, reward)
        worse = sum(ascending[j - 1] * comb(j - 1, k - 2) for j in range(1, below + 1))
        bracket = reward * comb(below, k - 1) - worse
        weights.append(k / n * bracket / comb(n - 1, k - 1))
    return weights


def plain_pass_at_k_once_per_prompt(rewards: list[float], k: int) -> list[float]:
    """The same as `plain_pass_at_k`, with both binomials computed once per prompt."""
    n = len(rewards)
    weight = k / n * comb(n - int(sum(rewards)), k - 1) / comb(n - 1, k - 1)
    return [weight * reward for reward in rewards]


def plain_max_at_k_running_sum(rewards: list[float], k: int) -> list[float]:
    """The same as `plain_max_at_k` in O(n log n), with a running sum over the sorted responses."""
    n = len(rewards)
    scale = k / n / comb(n - 1, k - 1)
    weights = [0.0] * n
    worse = 0.0
    for below, i in enumerate(sorted(range(n), key=rewards.__getitem__)):
        weights[i] = scale * (rewards[i] * comb(below, k - 1) - worse)
        worse += rewards[i] * comb(below, k - 2)
    return weights


PLAIN: dict[str, tuple[Plain, Plain]] = {
    "rspo_pass_at_k": (plain_pass_at_k, plain_pass_at_k_once_per_prompt),
    "rspo_max_at_k": (plain_max_at_k, plain_max_at_k_running_sum),
}


# --- Accuracy ------------------------------------------------------------------------------------


def correctness() -> list[Row]:
    """The errors of weights, against enumeration of all subsets and against plain Python."""
    rows = []
    # A response has 455, 6435, 1953 and 39711 subsets of k-1 other responses.
    for prompts, n, k in ((128, 16, 4), (128, 16, 8), (1024, 64, 3), (16, 64, 4)):
        for objective in PLAIN:
            rewards = sampled_rewards(objective, prompts, n)
            weights = response_weights(rewards, objective, k)
            error = largest_relative_error(weights, by_enumeration(rewards, k))
            rows.append(agreement(f"{objective}, k={k}, {prompts} x {n}: enumeration", error))
    for prompts, n in SIZES:
        for objective, (plain, _) in PLAIN.items():
            rewards = sampled_rewards(objective, prompts, n)
            weights = response_weights(rewards, objective, K)
            expected = np.array([plain(row, K) for row in rewards.tolist()])
            # Cancellation makes the small weights of plain Python inexact.
            error = float(abs(weights - expected).max() / abs(expected).max())
            rows.append(agreement(f"{objective}, k={K}, {prompts} x {n}: plain Python", error))
    return rows


def agreement(what: str, error: float) -> Row:
    """A row with a relative error and its limit."""
    return Row(what, f"error {error:.1e}", f"<= {TOLERANCE:.0e}", error <= TOLERANCE)


def by_enumeration(rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """The weights by their definition: (k/n) times the mean of max(S + i) - max(S) over all S.

    S is a set of k-1 other responses to the prompt than i.

    Args:
        rewards: (prompts, n).

    Returns: (prompts, n).
    """
    n = rewards.shape[-1]
    subsets = np.array(list(combinations(range(n - 1), k - 1)))
    weights = np.empty_like(rewards)
    for i in range(n):
        others = np.delete(rewards, i, axis=-1)
        best = others.take(subsets[:, 0], axis=-1)  # (prompts, subsets)
        for member in subsets.T[1:]:
            np.maximum(best, others.take(member, axis=-1), out=best)
        weights[:, i] = k / n * np.maximum(rewards[:, i, None] - best, 0.0).mean(axis=-1)
    return weights


def largest_relative_error(weights: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """The largest relative error; infinite if a weight is 0 in only one of the two arrays."""
    if ((weights == 0) != (expected == 0)).any():
        return float("inf")
    return float((abs(weights - expected) / np.where(expected == 0, 1.0, expected)).max())


def sampled_rewards(objective: str, prompts: int, n: int) -> NDArray[np.float64]:
    """Rewards of prompts of every difficulty, with a discount for length of up to one half."""
    rng = np.random.default_rng(0)
    correct = rng.random((prompts, n)) < rng.random((prompts, 1))
    if OBJECTIVES[objective].binary:
        return correct.astype(np.float64)
    return correct * (1.0 - 0.5 * rng.integers(100, 3072, (prompts, n)) / 3072)


# --- Speed -------------------------------------------------------------------------------------


def speed() -> list[Row]:
    """The times of `response_weights` and of plain Python, and their ratios."""
    rows = []
    for prompts, n in SIZES:
        for objective, (plain, best_plain) in PLAIN.items():
            rewards = sampled_rewards(objective, prompts, n)
            as_lists = rewards.tolist()
            taken = median_cpu_seconds(
                {
                    "ours": partial(response_weights, rewards, objective, K),
                    "plain": partial(weights_of_each, plain, as_lists),
                    "best plain": partial(weights_of_each, best_plain, as_lists),
                },
                REPEATS,
            )
            case = f"{objective}, k={K}, {prompts} x {n}"
            ratio = taken["plain"] / taken["ours"]
            has_limit = (prompts, n) == SIZES[-1]  # a small batch is mostly overhead
            rows += [
                Row(f"{case}: ours", readable(taken["ours"])),
                Row(f"{case}: plain Python, per response", readable(taken["plain"])),
                Row(
                    f"{case}: plain Python / ours",
                    f"{ratio:.0f} times",
                    f">= {MINIMAL_SPEED_UP} times" if has_limit else "",
                    not has_limit or ratio >= MINIMAL_SPEED_UP,
                ),
                Row(
                    f"{case}: plain Python at its best / ours",
                    f"{taken['best plain'] / taken['ours']:.1f} times",
                ),
            ]
    return rows


def weights_of_each(plain: Plain, groups: list[list[float]]) -> list[list[float]]:
    """The weights of each group of responses, one group after another."""
    return [plain(rewards, K) for rewards in groups]


def tensors() -> list[Row]:
    """How much longer a call takes with a tensor of PyTorch than with an array of the same dtype.

    The difference is that of the copies: none for float64 on the CPU. A tensor on a GPU, where
    there is one, is copied to the CPU, and its weights back; the time is that of the CPU, which
    waits.
    """
    rows = []
    for prompts, n in SIZES:
        rewards = sampled_rewards("rspo_max_at_k", prompts, n)
        for precision in ("float64", "float32"):
            array = rewards.astype(precision)
            given: dict[str, torch.Tensor] = {"CPU": torch.from_numpy(array)}
            if torch.cuda.is_available():
                given["GPU"] = given["CPU"].cuda()
            calls = {
                where: partial(response_weights, tensor, "rspo_max_at_k", K)
                for where, tensor in given.items()
            }
            taken = median_cpu_seconds(
                calls | {"array": partial(response_weights, array, "rspo_max_at_k", K)}, REPEATS
            )
            for where in given:
                ratio = taken[where] / taken["array"]
                on_cpu = where == "CPU"
                rows.append(
                    Row(
                        f"rspo_max_at_k, k={K}, {prompts} x {n}, {precision}: tensor on the "
                        f"{where} / array",
                        f"{ratio:.2f} times",
                        f"<= {LARGEST_OVERHEAD} times" if on_cpu else "",
                        not on_cpu or ratio <= LARGEST_OVERHEAD,
                    )
                )
    return rows


def scaling() -> list[Row]:
    """The exponent e in time per prompt ~ (n log n)^e of every objective.

    It is 1 if the time grows with n log n; it would be about 1.8 if it grew with n^2. All calls
    have the same number of rewards. Continuous rewards are the worst case for sorting.
    """
    rng = np.random.default_rng(0)
    rewards = rng.normal(size=SCALING_ELEMENTS)
    rows = []
    for objective in compared():
        values = (rewards > 0).astype(np.float64) if OBJECTIVES[objective].binary else rewards
        calls = {
            n: partial(response_weights, values.reshape(-1, n), objective, K) for n in SCALING_N
        }
        taken = median_cpu_seconds(calls, REPEATS)
        per_prompt = [taken[n] * n / SCALING_ELEMENTS for n in SCALING_N]
        size = [n * np.log(n) for n in SCALING_N]
        # The slope of a line through the logarithms.
        exponent = float(np.polyfit(np.log(size), np.log(per_prompt), 1)[0])
        rows.append(
            Row(
                f"{objective}: e in time ~ (n log n)^e, n = {SCALING_N[0]}..{SCALING_N[-1]}",
                f"{exponent:.2f}; a prompt {readable(per_prompt[0])} to {readable(per_prompt[-1])}",
                "<= 1.1",
                exponent <= 1.1,
            )
        )
    return rows
