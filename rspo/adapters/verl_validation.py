"""Unbiased Pass@k and Max@k with errors among verl's validation metrics.

    VERL_USE_EXTERNAL_MODULES=rspo.adapters.verl_validation python -m verl.trainer.main_ppo ...

verl's own `best@k` draws k responses with replacement, so its expectation depends on
n = val_kwargs.n. This module adds, for each data source and k = 2, 4, ... up to n:

val-aux/SOURCE/acc/pass@k/mean     Pass@k, if all values of `acc` are 0 or 1
val-aux/SOURCE/reward/max@k/mean   Max@k of the reward
.../error, .../within              standard error over prompts; the part of it from sampling

An error that has no estimate is left out: with one prompt, or `within` if 2k > n.

Depends on verl/trainer/ppo/metric_utils.py, from which verl's trainers import
`process_validation_metrics`. verl imports this module before them.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeAlias

import numpy as np

from rspo.adapters import versions
from rspo.estimators import max_at_k, max_at_k_variance, mean_with_errors

versions.require("verl", "0.9.1")

from verl.trainer.ppo import metric_utils  # noqa: E402, as in rspo.adapters.trl

Metrics: TypeAlias = dict[str, dict[str, dict[str, float]]]  # data source, variable, name
Prompt: TypeAlias = tuple[str, str]  # data source, uid
NAMES = {"acc": "pass", "reward": "max"}


def with_estimates(process: Callable[..., Metrics]) -> Callable[..., Metrics]:
    """verl's function of the values of all validated responses, with the metrics above."""

    @wraps(process)
    def process_with_estimates(
        data_sources: Sequence[str],
        sample_uids: Sequence[str],
        infos_dict: Mapping[str, Sequence[Any]],
        seed: int = 42,
        expected_acc_counts: Mapping[Prompt, int] | None = None,
    ) -> Metrics:
        metrics = process(data_sources, sample_uids, infos_dict, seed, expected_acc_counts)
        lost = {"acc": expected_acc_counts or {}}  # verl counts lost responses as wrong
        for variable in NAMES.keys() & infos_dict.keys():
            prompts = list(zip(data_sources, sample_uids, strict=True))
            found = groups_of(prompts, infos_dict[variable], lost.get(variable, {}))
            for source, groups in found.items():
                if variable != "acc" or np.isin(np.concatenate(groups), (0, 1)).all():
                    metrics[source][variable] |= estimates(groups, NAMES[variable])
        return metrics

    return process_with_estimates


def groups_of(
    prompts: Sequence[Prompt], values: Sequence[float | None], expected: Mapping[Prompt, int]
) -> dict[str, list[list[float]]]:
    """The values of the responses to each prompt, by data source.

    Args:
        prompts, values: of each response; None if it has no value.
        expected: numbers of responses; those that are missing have the value 0.
    """
    groups: dict[Prompt, list[float]] = defaultdict(list)
    for prompt, value in zip(prompts, values, strict=True):
        if value is not None:
            groups[prompt].append(value)
    sources = {source for source, _ in groups}
    for prompt, count in expected.items():
        if prompt[0] in sources:
            groups[prompt] += [0.0] * (count - len(groups[prompt]))
    return {
        source: [group for prompt, group in groups.items() if prompt[0] == source]
        for source in sources
    }


def estimates(groups: Sequence[Sequence[float]], name: str) -> dict[str, float]:
    """The metrics of one data source.

    Args:
        groups: for each prompt, the rewards of its responses.
    """
    n = min(map(len, groups))
    found = {}
    for k in sorted({2**power for power in range(1, n.bit_length()) if 2**power < n} | {n}):
        values = [float(max_at_k(group, k)) for group in groups]
        variances = [float(max_at_k_variance(group, k)) for group in groups]
        parts = zip(("mean", "error", "within"), mean_with_errors(values, variances), strict=True)
        found |= {f"{name}@{k}/{part}": value for part, value in parts if np.isfinite(value)}
    return found


metric_utils.process_validation_metrics = with_estimates(metric_utils.process_validation_metrics)
