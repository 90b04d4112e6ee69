"""Pass@k and Max@k with standard errors in the evaluations of a GRPOTrainer of TRL.

    trainer = GRPOTrainer(reward_funcs=correct, eval_dataset=problems, ...)
    trainer.add_callback(PassAtKCallback(trainer, ks=[1, 4], correct="correct"))

This module imports nothing of TRL. It uses the trainer's `reward_funcs`, `reward_func_names`,
`reward_weights` and `num_generations_eval`, and the events of callbacks of transformers.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np
import torch.distributed
import transformers

from rspo.adapters.versions import LOGGER
from rspo.core.errors import InputError
from rspo.estimators import max_at_k, mean_with_errors
from rspo.passk import Floats

Values = list[float | None]  # rewards of one call of a reward function


class PassAtKCallback(transformers.TrainerCallback):
    """Logs unbiased Pass@k and Max@k with errors after each evaluation of a GRPOTrainer.

    The metrics are `eval_max@k` of the total reward and, with `correct`, `eval_pass@k`. With the
    suffix `_error` they are the standard error over the prompts, and with `_within` the part of it
    from sampling, which needs 2k <= n. A metric without an estimate is not logged. All can be
    `metric_for_best_model`. Prompts with a response that has no reward are left out: their numbers
    are `eval_max_left_out` and `eval_pass_left_out`, and a warning names them if they are not 0.

    Args:
        trainer: a GRPOTrainer whose reward functions are all functions. It evaluates n =
            `num_generations_eval` responses to a prompt.
        ks: the values of k, each from 1 to n.
        correct: name of the reward function whose rewards are 1 for a correct response, else 0.

    Raises: InputError for a k that is not in 1 .. n, a `correct` that is the name of no or of
        several reward functions, and a reward model among them. While evaluating: for rewards of
        `correct` other than 0 and 1.
    """

    def __init__(self, trainer: Any, ks: Sequence[int], correct: str | None = None) -> None:
        self._trainer = trainer
        self._ks = list(ks)
        self._correct = correct
        self._names = list(trainer.reward_func_names)
        for k in self._ks:
            try:
                max_at_k(np.zeros(trainer.num_generations_eval), k)
            except ValueError as error:
                raise InputError(f"ks={self._ks}: {error}") from None
        if correct is not None and correct not in self._names:
            raise InputError(f"correct={correct!r} is no reward function: {', '.join(self._names)}")
        if correct is not None and self._names.count(correct) > 1:
            raise InputError(f"correct={correct!r} is the name of several reward functions")
        functions = trainer.reward_funcs
        for name, function in zip(self._names, functions, strict=True):
            if isinstance(function, torch.nn.Module):
                raise InputError(
                    f"reward_funcs: {name} is a model; PassAtKCallback keeps rewards of functions"
                )
        # By position, because functions may have the same name.
        self._calls: list[list[Values]] = [[] for _ in functions]
        for position, calls in enumerate(self._calls):
            functions[position] = self._keeping(functions[position], calls)

    def _keeping(self, function: Callable[..., Any], calls: list[Values]) -> Callable[..., Any]:
        """The reward function, which also keeps its rewards of evaluations in `calls`."""

        def keep(returned: Any) -> Values:
            values = [None if value is None else float(value) for value in returned]
            if not self._trainer.model.training:
                calls.append(values)
            return values

        @wraps(function)
        def kept(*args: Any, **kwargs: Any) -> Values:
            return keep(function(*args, **kwargs))

        @wraps(function)
        async def kept_later(*args: Any, **kwargs: Any) -> Values:
            return keep(await function(*args, **kwargs))

        is_async = inspect.iscoroutinefunction(function)
        # An object may have an `async def __call__`.
        is_async = is_async or inspect.iscoroutinefunction(type(function).__call__)
        return kept_later if is_async else kept

    def on_evaluate(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Add to the metrics of this evaluation, and log what was added."""
        metrics = given["metrics"]
        n = self._trainer.num_generations_eval
        dataloader = given["eval_dataloader"]
        if hasattr(dataloader.dataset, "__len__"):
            # Calls before these belong to an evaluation that ended with an error.
            for calls in self._calls:
                del calls[: -len(dataloader)]
            # The first prompts are repeated to fill the last batch.
            rewards = self._rewards()[: len(dataloader.dataset) * n]
        else:
            rewards = self._rewards()
        self._forget()
        groups = rewards.reshape(-1, n, len(self._names))
        found = self._estimates(groups)
        if state.is_world_process_zero:
            warn_of_left_out(found, len(groups))
        prefix = next(name for name in metrics if name.endswith("_runtime"))
        prefix = prefix.removesuffix("runtime")
        added = {prefix + name: value for name, value in found.items()}
        metrics.update(added)
        # GRPOTrainer's own `log` would print its table of completions again.
        transformers.Trainer.log(self._trainer, added)

    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any, **given: Any) -> None:
        """Forget the rewards of a prediction, which are those of no evaluation."""
        self._forget()

    def _forget(self) -> None:
        for calls in self._calls:
            calls.clear()

    def _rewards(self) -> Floats:
        """Rewards of all processes, (responses, functions), in the order of the prompts.

        Each batch lies on all processes, in their order. A reward of None is NaN.
        """
        of_processes: list[Any] = [self._calls]
        if torch.distributed.is_initialized():
            of_processes = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(of_processes, self._calls)
        columns = []
        for position in range(len(self._names)):
            batches = zip(*[calls[position] for calls in of_processes], strict=True)
            parts = [part for batch in batches for part in batch]
            columns.append([value for part in parts for value in part])
        return np.array(columns, dtype=float).T

    def _estimates(self, groups: Floats) -> dict[str, float]:
        """Metrics by name, without the prefix, of rewards (prompts, n, functions)."""
        weights = self._trainer.reward_weights.double().cpu().numpy()
        total = np.nansum(groups * weights, axis=-1)
        total[np.isnan(groups).all(axis=-1)] = np.nan
        found = self._of_values("max", total)
        if self._correct is not None:
            values = groups[..., self._names.index(self._correct)]
            if not np.isin(values[np.isfinite(values)], (0, 1)).all():
                raise InputError(f"rewards of {self._correct} must be 0 or 1 for Pass@k")
            found.update(self._of_values("pass", values))
        return found

    def _of_values(self, name: str, values: Floats) -> dict[str, float]:
        """Metrics of one reward, (prompts, n); only those that have an estimate."""
        whole = values[np.isfinite(values).all(axis=1)]
        found: dict[str, float] = {f"{name}_left_out": float(len(values) - len(whole))}
        if len(whole) == 0:
            return found
        for k in self._ks:
            mean = mean_with_errors(list(whole), k, "max_at_k")
            found[f"{name}@{k}"] = mean.value
            found[f"{name}@{k}_error"] = mean.error
            found[f"{name}@{k}_within"] = mean.within
        return {key: value for key, value in found.items() if np.isfinite(value)}


def warn_of_left_out(found: Mapping[str, float], prompts: int) -> None:
    """Log a line for each metric that leaves out some of the prompts."""
    for name in ("max", "pass"):
        left_out = int(found.get(f"{name}_left_out", 0))
        if left_out:
            LOGGER.warning(
                "%s@k is of %d of %d prompts: the others have a response without a reward",
                name,
                prompts - left_out,
                prompts,
            )
