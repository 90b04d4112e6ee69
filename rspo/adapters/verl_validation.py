"""Unbiased Pass@k and Max@k with standard errors among verl's validation metrics.

    VERL_USE_EXTERNAL_MODULES=rspo.adapters.verl_validation python -m verl.trainer.main_ppo ...

verl's own `best@k` draws k responses with replacement, so its expectation depends on
n = val_kwargs.n. This module adds, for each data source and k = 1, 2, 4, ... up to n:

val-aux/SOURCE/acc/pass@k/mean     Pass@k, if all values of `acc` are 0 or 1
val-aux/SOURCE/reward/max@k/mean   Max@k of the reward
.../error, .../within              standard error over prompts; the part of it from sampling

An error that has no estimate is left out: with one prompt, or `within` if 2k > n.

It replaces `process_validation_metrics` of verl/trainer/ppo/metric_utils.py, from which verl's
trainers import it later than this module, and which is the only place where verl has the values of
all responses to a prompt. The function is first tried on known values.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rspo.adapters import verl_check, versions
from rspo.core.errors import InputError
from rspo.estimators import mean_with_errors

Metrics = dict[str, dict[str, dict[str, float]]]  # data source, variable, name
NAMES = {"acc": "pass", "reward": "max"}
FUNCTION = "process_validation_metrics"

metric_utils = verl_check.module_with("verl.trainer.ppo.metric_utils", FUNCTION)
_process = getattr(metric_utils, FUNCTION)


def require_known_metrics() -> None:
    """Raises: InputError if verl's mean of known values is another, or has another place."""
    values = [0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0]
    found: Any = None
    try:
        found = _process(["known"] * 8, ["a"] * 4 + ["b"] * 4, {"acc": values})["known"]["acc"]
        agrees = abs(found["mean@4"] - 0.5) < 1e-9
    except (KeyError, TypeError):
        agrees = False
    if not agrees:
        raise InputError(
            f"verl {verl_check.version()}: {FUNCTION} gives {found!r} for two prompts with 1 and 3 "
            "of 4 responses correct; expected: mean@4 = 0.5"
        )


def process_validation_metrics(
    data_sources: Sequence[str],
    sample_uids: Sequence[str],
    infos_dict: Mapping[str, Sequence[Any]],
    *further: Any,
    **options: Any,
) -> Metrics:
    """verl's function of the values of all validated responses, with the metrics above.

    Raises: InputError for a value of `acc` or `reward` that is not finite.
    """
    require_finite(data_sources, sample_uids, infos_dict)
    versions.warn_unless_tested("verl", verl_check.version(), versions.VERL)
    metrics: Metrics = _process(data_sources, sample_uids, infos_dict, *further, **options)
    # The numbers of responses that should have a value of `acc`; verl 0.9 counts others as wrong.
    expected = options.get("expected_acc_counts") or {}
    for variable in NAMES:
        if variable not in infos_dict:
            continue
        rows = zip(data_sources, sample_uids, infos_dict[variable], strict=True)
        counts = expected if variable == "acc" else {}
        for source, groups in groups_of(rows, counts).items():
            if variable != "acc" or np.isin(np.concatenate(groups), (0, 1)).all():
                metrics[source][variable].update(estimates(groups, NAMES[variable]))
    return metrics


def require_finite(
    data_sources: Sequence[str], sample_uids: Sequence[str], infos_dict: Mapping[str, Sequence[Any]]
) -> None:
    """Raises: InputError that names the first response with a value that is not finite."""
    for variable in NAMES:
        for row, value in enumerate(infos_dict.get(variable, ())):
            if value is not None and not np.isfinite(value):
                raise InputError(
                    f"validation: {variable} of response {row} is {value}, to prompt "
                    f"{sample_uids[row]} of {data_sources[row]}; allowed: a finite number"
                )


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
            found[source][uid].append(float(value))
    for (source, uid), count in expected.items():
        if source in found:
            missing = count - len(found[source][uid])
            found[source][uid] += [0.0] * missing
    return {source: list(groups.values()) for source, groups in found.items()}


def estimates(groups: Sequence[Sequence[float]], name: str) -> dict[str, float]:
    """The metrics of one data source, from the values of the responses to each prompt."""
    n = min(map(len, groups))
    found = {}
    for k in powers_up_to(n):
        mean = mean_with_errors(groups, k, "max_at_k")
        found[f"{name}@{k}/mean"] = mean.value
        found[f"{name}@{k}/error"] = mean.error
        found[f"{name}@{k}/within"] = mean.within
    return {key: value for key, value in found.items() if np.isfinite(value)}


def powers_up_to(n: int) -> list[int]:
    """1, 2, 4, ... below n, and n."""
    ks = []
    k = 1
    while k < n:
        ks.append(k)
        k *= 2
    ks.append(n)
    return ks


try:
    require_known_metrics()
except InputError as error:
    versions.LOGGER.error("no Pass@k in verl's validation: %s", error)
    raise
setattr(metric_utils, FUNCTION, process_validation_metrics)
