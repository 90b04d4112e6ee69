"""Unbiased Pass@k and Max@k with errors among verl's validation metrics.

    VERL_USE_EXTERNAL_MODULES=rspo.adapters.verl_validation python -m verl.trainer.main_ppo ...

verl's own `best@k` draws k responses with replacement, so its expectation depends on
n = val_kwargs.n. This module adds, for each data source and k = 1, 2, 4, ... up to n:

val-aux/SOURCE/acc/pass@k/mean     Pass@k, if all values of `acc` are 0 or 1
val-aux/SOURCE/reward/max@k/mean   Max@k of the reward
.../error, .../within              standard error over prompts; the part of it from sampling

An error that has no estimate is left out: with one prompt, or `within` if 2k > n.

Depends on verl/trainer/ppo/metric_utils.py, from which verl's trainers import
`process_validation_metrics`. verl imports this module before them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from rspo.adapters import versions
from rspo.estimators import max_at_k_with_errors

versions.require("verl", "0.9.1")

from verl.trainer.ppo import metric_utils  # noqa: E402, as in rspo.adapters.trl

Metrics: TypeAlias = dict[str, dict[str, dict[str, float]]]  # data source, variable, name
NAMES = {"acc": "pass", "reward": "max"}
_process = metric_utils.process_validation_metrics


def process_validation_metrics(
    data_sources: Sequence[str],
    sample_uids: Sequence[str],
    infos_dict: Mapping[str, Sequence[Any]],
    **options: Any,
) -> Metrics:
    """verl's function of the values of all validated responses, with the metrics above."""
    metrics: Metrics = _process(data_sources, sample_uids, infos_dict, **options)
    lost = {"acc": options.get("expected_acc_counts") or {}}  # verl counts them as wrong
    for variable in NAMES.keys() & infos_dict.keys():
        rows = zip(data_sources, sample_uids, infos_dict[variable], strict=True)
        for source, groups in groups_of(rows, lost.get(variable, {})).items():
            if variable != "acc" or np.isin(np.concatenate(groups), (0, 1)).all():
                metrics[source][variable] |= estimates(groups, NAMES[variable])
    return metrics


def groups_of(
    rows: Iterable[tuple[str, str, float | None]], expected: Mapping[tuple[str, str], int]
) -> dict[str, list[list[float]]]:
    """The values of the responses to each prompt, by data source.

    Args:
        rows: data source, uid of the prompt, and value of each response; None if it has none.
        expected: numbers of responses by data source and uid; missing ones have the value 0.
    """
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for source, uid, value in rows:
        if value is not None:
            found[source][uid].append(value)
    for (source, uid), count in expected.items():
        if source in found:
            found[source][uid] += [0.0] * (count - len(found[source][uid]))
    return {source: list(groups.values()) for source, groups in found.items()}


def estimates(groups: Sequence[Sequence[float]], name: str) -> dict[str, float]:
    """The metrics of one data source, from the values of the responses to each prompt."""
    n = min(map(len, groups))
    found: dict[str, float] = {}
    for k in [2**power for power in range(n.bit_length()) if 2**power < n] + [n]:
        parts = zip(("mean", "error", "within"), max_at_k_with_errors(groups, k), strict=True)
        found |= {f"{name}@{k}/{part}": value for part, value in parts if np.isfinite(value)}
    return found


metric_utils.process_validation_metrics = process_validation_metrics
