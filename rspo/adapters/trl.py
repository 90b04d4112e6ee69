"""For TRL: a GRPOTrainer whose advantages are n times the weights, and Pass@k in evaluations.

The weight w_i contains the factor 1/n, and TRL's loss `dr_grpo` takes the mean over all responses,
which is another 1/n, and divides by the constant T = max_completion_length:

    -1/(P n T) sum_x sum_i (n w_i) sum_t (clipped ratio)  =  -1/(P T) sum_x sum_i w_i sum_t (...)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rspo.adapters import versions
from rspo.core.errors import InputError
from rspo.estimators import max_at_k, max_at_k_with_errors
from rspo.objectives import OBJECTIVES, response_weights
from rspo.objectives.registry import unknown_objective

versions.require("trl", "1.16.0")

import transformers  # noqa: E402, with TRL only
import trl  # noqa: E402, other versions may lack what this module uses

# Settings of trl.GRPOConfig that change the loss or the advantages, with the one allowed value.
ALLOWED = {
    "loss_type": "dr_grpo",
    "scale_rewards": "none",
    "multi_objective_aggregation": "sum_then_normalize",
    "importance_sampling_level": "token",
    "beta": 0.0,
    "delta": None,
    "entropy_coef": 0.0,
    "use_adaptive_entropy": False,
    "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None,
    "mask_truncated_completions": False,
    "use_liger_kernel": False,
}


class RSPOTrainer(trl.GRPOTrainer):
    """TRL's GRPOTrainer with the weights of an objective.

    In validation, where groups may be smaller, it keeps GRPO's advantages.

    Args:
        objective: a name in `OBJECTIVES`.
        k: of Pass@k or Max@k; objectives without k ignore it.
        args: trl.GRPOConfig with the values of `ALLOWED`; `num_generations` is n.
        further arguments: as of GRPOTrainer.

    Raises: InputError for an unknown objective, a k that it does not allow for n responses, and
        settings that change its loss. While training: for rewards that the objective does not
        allow, such as None.
    """

    def __init__(
        self,
        *further: Any,
        objective: str,
        args: trl.GRPOConfig,
        k: int | None = None,
        **named: Any,
    ) -> None:
        require_settings(args, objective, k)
        self._objective, self._k = objective, k
        super().__init__(*further, args=args, **named)

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        """(responses, reward functions) of all processes; the groups are in the sampler's order."""
        self._rewards_per_function = super()._calculate_rewards(*args, **kwargs)
        return self._rewards_per_function

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.model.training:
            rewards = total_rewards(self._rewards_per_function, self.reward_weights)
            groups = rewards.view(-1, self.num_generations)
            advantages = response_advantages(groups, self._objective, self._k).flatten()
            self._replace_logged(advantages)
            first = self.accelerator.process_index * len(inputs)
            batch["advantages"] = advantages[first : first + len(inputs)]
        return batch

    def _replace_logged(self, advantages: Tensor) -> None:
        """GRPO's advantages of this batch are the last of TRL's table of completions."""
        logged = self._logs["advantages"]
        for _ in range(min(len(advantages), len(logged))):
            logged.pop()
        logged.extend(advantages.tolist())


class PassAtKCallback(transformers.TrainerCallback):
    """Logs unbiased Pass@k and Max@k with errors after each evaluation of a GRPOTrainer.

        trainer.add_callback(PassAtKCallback(trainer, ks=[1, 4], correct="accuracy_reward"))

    The metrics are `eval_max@k` of the total reward and, with `correct`, `eval_pass@k`. `_error` is
    the standard error over the prompts, and `_within` the part of it from sampling, which needs
    2k <= n. A metric without an estimate is not logged. All can be `metric_for_best_model`. Prompts
    with a response that has no reward are left out.

    Args:
        trainer: one that evaluates at least max(ks) responses to a prompt, `num_generations_eval`.
        correct: name of the reward function whose rewards are 1 for a correct response, else 0.

    Raises: InputError for a k that is not in 1 .. n, and a `correct` that is no reward function.
        While evaluating: for rewards of that function other than 0 and 1.
    """

    def __init__(
        self, trainer: trl.GRPOTrainer, ks: Sequence[int], correct: str | None = None
    ) -> None:
        self._n = trainer.num_generations_eval
        for k in ks:
            max_at_k(np.zeros(self._n), k)  # raises for a k that is not allowed
        names = trainer.reward_func_names
        if correct is not None and correct not in names:
            raise InputError(f"correct={correct!r} is no reward function: {', '.join(names)}")
        self._trainer, self._ks, self._correct = trainer, ks, correct
        self._batches: list[Tensor] = []
        calculate = trainer._calculate_rewards

        def calculate_and_keep(*args: Any, **kwargs: Any) -> Tensor:
            rewards: Tensor = calculate(*args, **kwargs)
            if not trainer.model.training:
                self._batches.append(rewards)
            return rewards

        trainer._calculate_rewards = calculate_and_keep

    def on_evaluate(self, *_: Any, **given: Any) -> None:
        """Add to the metrics of this evaluation, and log what was added."""
        rewards = torch.cat(self._batches)
        self._batches.clear()
        metrics, dataset = given["metrics"], given["eval_dataloader"].dataset
        if hasattr(dataset, "__len__"):  # accelerate repeats the first rows to fill all ranks
            rewards = rewards[: len(dataset) * self._n]
        groups = {"max": total_rewards(rewards, self._trainer.reward_weights)}
        if self._correct is not None:
            groups["pass"] = rewards[:, self._trainer.reward_func_names.index(self._correct)]
        found: dict[str, float] = {}
        for name, values in groups.items():
            of_prompts = values.view(-1, self._n).double().cpu().numpy()
            of_prompts = of_prompts[np.isfinite(of_prompts).all(axis=1)]
            if name == "pass" and not np.isin(of_prompts, (0, 1)).all():
                raise InputError(f"rewards of {self._correct} must be 0 or 1 for Pass@k")
            for k in self._ks if len(of_prompts) else []:
                keys = (f"{name}@{k}{end}" for end in ("", "_error", "_within"))
                found |= zip(keys, max_at_k_with_errors(of_prompts, k), strict=True)
        prefix = next(key for key in metrics if key.endswith("_runtime")).removesuffix("runtime")
        added = {prefix + key: value for key, value in found.items() if np.isfinite(value)}
        metrics |= added
        transformers.Trainer.log(self._trainer, added)  # TRL's own would print its table again

    def on_predict(self, *_: Any, **__: Any) -> None:
        self._batches.clear()


def total_rewards(rewards_per_function: Tensor, reward_weights: Tensor) -> Tensor:
    """The weighted sum over reward functions, as in TRL.

    Args:
        rewards_per_function: (responses, functions), NaN where a function returned None.
        reward_weights: (functions,).

    Returns: (responses,), NaN where all functions returned None.
    """
    total = (rewards_per_function * reward_weights.to(rewards_per_function.device)).nansum(dim=1)
    return total.masked_fill(rewards_per_function.isnan().all(dim=1), torch.nan)


def response_advantages(rewards: Tensor, objective: str, k: int | None) -> Tensor:
    """n times the weights; rewards and advantages are (prompts, n).

    Raises: InputError for rewards that the objective does not allow.
    """
    try:
        return rewards.shape[-1] * response_weights(rewards, objective, k)
    except ValueError as error:
        raise InputError(f"reward_funcs: {error}") from None


def require_settings(args: trl.GRPOConfig, objective: str, k: int | None) -> None:
    """Raises: InputError naming the first setting that another value is required of."""
    for name, allowed in ALLOWED.items():
        if getattr(args, name) != allowed:
            raise InputError(f"{name}={getattr(args, name)!r} of GRPOConfig; allowed: {allowed!r}")
    if objective not in OBJECTIVES:
        raise InputError(unknown_objective(objective))
    try:
        response_weights([0.0] * args.num_generations, objective, k)
    except ValueError as error:
        raise InputError(f"k={k}, num_generations={args.num_generations}: {error}") from None
