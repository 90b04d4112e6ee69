"""RSPO (arXiv 2508.01174) as an advantage estimator of verl: unbiased for Pass@k and Max@k.

Loaded by `VERL_USE_EXTERNAL_MODULES`, selected by `algorithm.adv_estimator=rspo`, with its k in
`+algorithm.rspo_k`.
"""

import math
from collections import defaultdict

import torch
from verl.trainer.ppo.core_algos import register_adv_est


def rspo_advantages(rewards: torch.Tensor, k: int) -> torch.Tensor:
    """n times the weights of the n responses to a prompt, with rewards in any order.

    k times the mean, over the (k-1)-subsets S of the other responses, of max(S + i) - max(S). With
    r_(1) <= ... <= r_(n) it is

        k sum_{m < i} [r_(m+1) - r_(m)] C(m, k-1) / C(n-1, k-1),     k >= 2,

    and the reward itself for k = 1. On 0/1 rewards, each of c correct responses gets
    k C(n-c, k-1) / C(n-1, k-1), each wrong one 0.
    """
    n = len(rewards)
    if k is None or not 1 <= k <= n:
        raise ValueError(f"algorithm.rspo_k = {k}: allowed: 1 to rollout.n = {n}")
    if k == 1:
        return rewards.clone()
    ascending, order = rewards.double().sort()
    factors = [math.comb(m, k - 1) / math.comb(n - 1, k - 1) for m in range(1, n)]
    gains = ascending.diff() * torch.tensor(factors, dtype=torch.float64, device=rewards.device)
    advantages = torch.zeros_like(ascending)
    advantages[order[1:]] = k * gains.cumsum(0)
    return advantages.to(rewards.dtype)


@register_adv_est("rspo")
def compute_rspo_outcome_advantage(token_level_rewards, response_mask, index, config, **_):
    """Advantages (bs, response_length), the same for all tokens of a response; and as returns."""
    scores = token_level_rewards.sum(dim=-1)
    groups = defaultdict(list)
    for row, prompt in enumerate(index):
        if response_mask[row].any():  # not a row that verl added to fill a batch
            groups[prompt].append(row)
    advantages = torch.zeros_like(scores)
    for rows in groups.values():
        advantages[rows] = rspo_advantages(scores[rows], config.get("rspo_k"))
    advantages = advantages.unsqueeze(-1) * response_mask
    return advantages, advantages
