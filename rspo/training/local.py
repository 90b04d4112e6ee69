"""RSPO in one process: Algorithm 1 of the paper, for models that one CPU or GPU can train.

    for step = 1, 2, ...                                              Trainer.train
        sample a batch D_b of P prompts x from D                      prompts_of_step
        sample n responses y^1, ..., y^n ~ pi_theta(. | x) to each    Trainer.sample
        compute the rewards R(x, y^i)                                 Trainer.reward
        compute the weights w_i (Theorem 4.3 or 4.4)                  response_weights
        update theta to maximize J(theta)                             Trainer.update

    grad J(theta) = 1/|D_b| sum_x sum_i w_i grad log pi_theta(y^i | x)

A step makes one update per mini-batch M of prompts, in each of `epochs` passes over them. After the
first update, pi_theta is no longer the policy pi_old that sampled. Each update therefore maximizes
PPO's clipped objective (Schulman et al. 2017, equation 7), whose gradient at pi_theta = pi_old is
grad J / T:

    1/(|M| T) sum_x sum_i sum_t min(w_i r_it, w_i clip(r_it, 1 - epsilon, 1 + epsilon))
    r_it = pi_theta(y^i_t | x, y^i_<t) / pi_old(y^i_t | x, y^i_<t)
    T = the maximum response length; with `loss_aggregation: token-mean`, the mean length in M

Each update also maximizes `entropy_bonus` times the mean entropy of pi_theta(. | x, y^i_<t) over
all tokens that were sampled for M, including those of responses of weight 0.

This engine runs in one process, on a CPU or a GPU. Like the verl engine, it has no critic and no KL
term. Tensors are on the device of the model unless a comment says otherwise.
Shapes: P prompts of L tokens, n responses to each, B selected responses of at most T tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rspo.config.experiment import Cell
from rspo.config.schema import Config
from rspo.core.errors import errors_of
from rspo.core.seeds import generator_of
from rspo.objectives import response_weights
from rspo.policies.device import PassLimits, pass_limits
from rspo.policies.qwen2 import Qwen2, padded_on_the_left, response_logits
from rspo.policies.sampler import Responses, sample
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import Verify
from rspo.training.adam import adam, adam_step
from rspo.training.mfu import model_flops_utilization
from rspo.training.prompts import Prompts, prompts_of_step
from rspo.training.records import Record, Stopwatch, record_of
from rspo.training.rewards import Scored, named_rewards, tokens_of, verify_tokens

# Decides which responses to reward as correct ones, (P * n,). The arguments are those of
# `SimulatedErrors.accept`: the batch; for each response, the row of its prompt in the batch, its
# tokens, and whether it is correct; and the step, counted from 0.
Accept = Callable[
    [Prompts, Sequence[int], Sequence[Sequence[int]], NDArray[np.bool_], int], NDArray[np.bool_]
]


@dataclass(frozen=True)
class Rollout:
    """The responses of one step; row i * n + j of `responses` is response j to prompt i."""

    prompts: Tensor  # (P, L) token ids
    # (P,) the number of padding tokens at the beginning of each prompt; None if none has any
    padding: Tensor | None = field(default=None, kw_only=True)
    responses: Responses  # (P * n, T)
    weights: Tensor  # (P, n)


class Trainer:
    """A policy pi_theta and its optimizer.

    accept: decides which responses to reward as correct ones. By default, these are the responses
        that the verifier accepts; `local_engine` replaces it by simulated errors of a verifier.
    rate: the peak of the learning rate.
    peak: operations per second of the device, with which records have the MFU; None if unknown.
    """

    def __init__(
        self, config: Config, cell: Cell, model: Qwen2, tokenizer: ChatTokenizer, verify: Verify
    ) -> None:
        self.config = config
        self.cell = cell
        self.model = model
        self.tokenizer = tokenizer
        self.verify = verify
        self.accept: Accept = lambda batch, rows, tokens, correct, step: correct
        self.rate = config.models[cell.model].learning_rate
        self.peak: float | None = None
        self.optimizer = adam(model.parameters(), self.rate, config.training.optimizer)

    def train(self, prompts: Prompts, first: int = 0) -> Iterator[Record]:
        """Algorithm 1 on the prompts D, from step index `first`; yields a record per step."""
        training = self.config.training
        for step in range(first, training.last_step):
            clock = Stopwatch()
            rows = prompts_of_step(prompts.families, training, self.cell.seed, step)
            batch = prompts.select(rows)  # D_b
            responses = self.sample(batch.tokens, self.cell.n, "sampling", step)  # y^i
            clock.lap("sample")
            correct, rewards = self.reward(batch, responses, step)  # R(x, y^i), (P, n)
            weights = self.weights(rewards, training.k_at(step, self.cell.k))  # w_i, (P, n)
            clock.lap("reward")
            scored = Scored.from_columns(
                responses.lengths, responses.finished, correct, rewards, weights
            )
            rollout = self.rollout(batch, responses, scored.weights)
            rows_of_batch = torch.arange(len(rows), device=self.model.device)
            mini_batches = rows_of_batch.split(training.mini_batch_prompts)
            updates = []
            for epoch in range(training.epochs):
                for part in mini_batches:
                    updates.append(self.update(step, rollout, part, epoch))  # theta
            clock.lap("update")
            entropy = (responses.entropy.sum() / responses.lengths.sum()).item()
            record = record_of(step, scored, entropy, updates, clock.seconds, training.optimizer)
            if self.peak is not None:
                record["mfu"] = self.utilization(batch, scored, clock.seconds["update"], self.peak)
            yield record

    def utilization(self, batch: Prompts, scored: Scored, seconds: float, peak: float) -> float:
        """The MFU of the updates of a step; the sampler has computed the log-probabilities."""
        lengths = torch.tensor([len(tokens) for tokens in batch.tokens])[:, None]
        lengths = lengths + scored.lengths.cpu()
        training = self.config.training
        kept = scored.weights.cpu() != 0
        if training.entropy_bonus or not training.drop_zero_weights:
            kept = torch.ones_like(kept)
        tokens = int(lengths[kept].sum()) * training.epochs
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        return model_flops_utilization(parameters, 0, tokens, seconds, 1, peak)

    def rollout(self, batch: Prompts, responses: Responses, weights: Tensor) -> Rollout:
        """The tensors of a step, on the device of the model."""
        device = self.model.device
        tokens, padding = padded_on_the_left(batch.tokens, self.tokenizer.pad, device)
        return Rollout(tokens, responses, weights.to(device), padding=padding)

    def weights(self, rewards: NDArray[np.float64], k: int) -> NDArray[np.float64]:
        """The weight of each response, (P, n)."""
        with errors_of(f"cell {self.cell.name}"):
            return response_weights(rewards, self.cell.objective, k)

    def sample(self, prompts: Sequence[Sequence[int]], n: int, *seed: str | int) -> Responses:
        """Sample n responses y^i ~ pi_theta(. | x) to every prompt x, seeded by `seed`."""
        return sample(
            self.model,
            prompts,
            n,
            max_tokens=self.config.sampling.max_response_tokens,
            end=self.tokenizer.ends,
            pad=self.tokenizer.pad,
            generator=generator_of(self.cell.seed, *seed),
            temperature=self.config.sampling.temperature,
        )

    def reward(
        self, batch: Prompts, responses: Responses, step: int
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Compute which responses are correct, and their rewards R(x, y^i); (P, n) each."""
        rows = [row for row in range(len(batch.tokens)) for _ in range(self.cell.n)]
        tokens = tokens_of(responses)
        correct = verify_tokens(tokens, rows, batch, self.tokenizer, self.verify)  # (P * n,)
        accepted = self.accept(batch, rows, tokens, correct, step)
        rewards = named_rewards(self.cell.reward, accepted, tokens, self.tokenizer, self.config)
        return correct.reshape(-1, self.cell.n), rewards.reshape(-1, self.cell.n)

    def update(self, step: int, rollout: Rollout, part: Tensor, epoch: int = 0) -> dict[str, float]:
        """Maximize J on one mini-batch of prompts, rows `part` of the batch, by a step of Adam."""
        training = self.config.training
        length: float = self.config.sampling.max_response_tokens
        if training.loss_aggregation == "token-mean":
            lengths = rollout.responses.lengths.view_as(rollout.weights)[part]
            length = float(lengths.cpu().double().mean())
        # Zeros instead of None: if all weights are 0, Adam still applies its momentum (`adam`).
        self.optimizer.zero_grad(set_to_none=False)
        clipped = backward(
            self.model,
            rollout,
            part,
            length,
            epsilon=training.ppo_clip or float("inf"),
            temperature=self.config.sampling.temperature,
            entropy_bonus=training.entropy_bonus,
            drops=training.drop_zero_weights,
        )
        # The learning rate depends on the updates so far, as a fraction of all: count the passes
        # and mini-batches of this step before this update.
        fraction_of_step = (epoch + int(part[0]) / training.prompts_per_step) / training.epochs
        done = (step + fraction_of_step) / training.steps
        norm, rate = adam_step(self.optimizer, self.rate, training.optimizer, done)
        return {"gradient_norm": norm, "clipped": clipped, "learning_rate": rate}


def backward(
    model: Qwen2,
    rollout: Rollout,
    part: Tensor,
    length: float,
    epsilon: float,
    temperature: float,
    entropy_bonus: float = 0.0,
    drops: bool = True,
) -> float:
    """Add the gradient of minus the clipped objective on a mini-batch to the parameters' gradients.

    Without an entropy bonus, responses of weight 0 do not change the gradient; dropping them saves
    time (section 5.1 of the paper).

    Args:
        part: the rows of the mini-batch's prompts.
        length: T of the objective, in tokens.
        epsilon: the ratio is clipped to 1 - epsilon ... 1 + epsilon.
        entropy_bonus: coefficient of the mean entropy in the objective.
        drops: whether to drop the responses of weight 0 where that changes nothing.

    Returns: the fraction of clipped tokens, among the tokens of responses with non-zero weight.
    """
    every_row = torch.arange(rollout.weights.numel(), device=rollout.weights.device)
    rows = every_row.view_as(rollout.weights)[part].flatten()  # (B,)
    lengths = rollout.responses.lengths
    sampled = int(lengths[rows].sum())
    if drops and not entropy_bonus:
        rows = rows[rollout.weights.flatten()[rows] != 0]
    if len(rows) == 0:
        return 0.0
    rows, rollout, copies = merge_equal(rollout, rows)
    rows = rows[torch.argsort(lengths[rows], stable=True)]  # pads less
    clipped = 0
    tokens = 0
    limits = pass_limits(model.device)
    for chunk in chunks(rows, lengths[rows].tolist(), model.config.vocab_size, limits):
        log_p = token_distributions(model, rollout, chunk, temperature)
        objective, is_clipped = clipped_objective(log_p, rollout, chunk, epsilon)
        # |M| = len(part) also counts the prompts whose responses all have weight 0.
        loss = -objective / (len(part) * length)
        if entropy_bonus:
            entropy = (copies[chunk] * entropies(log_p, rollout, chunk)).sum() / sampled
            loss = loss - entropy_bonus * entropy
        loss.backward()
        # Count the clipped tokens; a merged response counts as often as it was sampled.
        weighted = copies[chunk] * (rollout.weights.flatten()[chunk] != 0)
        counts = weighted.repeat_interleave(lengths[chunk])
        clipped += int(counts[is_clipped].sum())
        tokens += int(counts.sum())
    return clipped / max(1, tokens)


def chunks(
    rows: Tensor, lengths: Sequence[int], vocabulary: int, limits: PassLimits
) -> Iterator[Tensor]:
    """Yield the rows of each forward and backward pass, in order.

    A pass has at least one response. Its logits are counted with the padding.

    Args:
        rows: (B,) rows of responses, shorter ones first.
        lengths: the number of tokens of each of these responses.
        vocabulary: the number of logits for each token.
    """
    first = 0
    for last, length in enumerate(lengths):
        count = last - first + 1
        logits = count * length * vocabulary
        if count > limits.responses or (count > 1 and logits > limits.logits):
            yield rows[first:last]
            first = last
    yield rows[first:]


def merge_equal(rollout: Rollout, rows: Tensor) -> tuple[Tensor, Rollout, Tensor]:
    """Merge equal responses to a prompt into the first of them, which saves time.

    The first response gets the sum of the weights. The objective stays the same, because
    min(w r, w clip(r)) is linear in w as long as w does not change its sign. Therefore, only
    responses whose weights have the same sign (negative, zero or positive) are merged.

    Returns: the rows that are left, (B,); the rollout with the summed weights; and, for each row of
        the rollout, how many responses it stands for, (P * n,).
    """
    responses = rollout.responses
    weights = rollout.weights.flatten()
    prompt_and_sign = torch.stack((rows // rollout.weights.shape[1], weights[rows].sign().long()))
    # Rows with equal keys, (2 + T,), are merged; `group` has the number of each row's key.
    keys = torch.cat((prompt_and_sign.T, responses.tokens[rows]), dim=1)
    distinct, group = torch.unique(keys, dim=0, return_inverse=True)
    # The first row of each group: the minimum, which starts above every row.
    first = rows.new_full((len(distinct),), len(weights))
    first = first.scatter_reduce(0, group, rows, "amin")
    merged = torch.zeros_like(weights).index_add_(0, first[group], weights[rows])
    copies = torch.bincount(first[group], minlength=len(weights))
    return first, replace(rollout, weights=merged.view_as(rollout.weights)), copies


def token_distributions(model: Qwen2, rollout: Rollout, rows: Tensor, temperature: float) -> Tensor:
    """log pi_theta(. | x, y_<t) at each token of the responses `rows`: (B, T, V).

    Here T is the length of the longest of these responses, and V the size of the vocabulary.
    """
    n = rollout.weights.shape[1]
    longest = int(rollout.responses.lengths[rows].max())
    tokens = rollout.responses.tokens[rows, :longest]  # (B, T)
    # The model reads each prompt once.
    prompt_rows, prompt_of = torch.unique(rows // n, return_inverse=True)
    padding = None if rollout.padding is None else rollout.padding[prompt_rows]
    prompts = rollout.prompts[prompt_rows]
    logits = response_logits(model, prompts, prompt_of, tokens, padding) / temperature
    return logits.log_softmax(dim=-1)


def clipped_objective(
    log_p: Tensor, rollout: Rollout, rows: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Sum the min(...) of the objective over the tokens of the responses `rows`.

    The formula is at the top of this file.

    Args:
        log_p: (B, T, V), see `token_distributions`.
        rows: (B,) the rows of these responses in the rollout.
        epsilon: the ratio is clipped to 1 - epsilon ... 1 + epsilon.

    Returns: the sum, a scalar; and, for each token of these responses, whether it is clipped. The
        tokens are in one dimension, response by response, without padding.
    """
    responses = rollout.responses
    longest = log_p.shape[1]
    tokens = responses.tokens[rows, :longest]  # (B, T)
    mask = responses.mask[rows, :longest]  # (B, T)
    token_log_p = log_p.gather(-1, tokens[..., None])[..., 0]  # (B, T)
    ratio = torch.exp(token_log_p - responses.log_probs[rows, :longest])  # r_it, (B, T)
    weights = rollout.weights.flatten()[rows, None]  # (B, 1)
    unclipped = weights * ratio
    clipped = weights * ratio.clamp(1 - epsilon, 1 + epsilon)
    return torch.minimum(unclipped, clipped)[mask].sum(), (clipped < unclipped)[mask]


def entropies(log_p: Tensor, rollout: Rollout, rows: Tensor) -> Tensor:
    """The entropy of pi_theta in nats, summed over each response's tokens: (B,)."""
    token_entropies = -(log_p.exp() * log_p).sum(dim=-1)  # (B, T)
    return (token_entropies * rollout.responses.mask[rows, : log_p.shape[1]]).sum(dim=-1)
