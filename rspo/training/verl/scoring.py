"""Rewards and weights of a batch of responses, before dropping."""

import numpy as np
import torch
from numpy.typing import NDArray
from transfer_queue import KVBatchMeta

from rspo.config.experiment import Cell
from rspo.config.schema import Config
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.records import Scored, named_rewards
from rspo.training.verl.advantages import response_advantages
from rspo.training.verl.batches import (
    fields,
    on_every_token,
    on_last_token,
    put_fields,
    response_tokens,
)


class Scoring:
    """Computes the rewards and weights of one cell's batches."""

    def __init__(self, config: Config, cell: Cell, tokenizer: ChatTokenizer) -> None:
        self.config, self.cell, self.tokenizer = config, cell, tokenizer

    def score(self, batch: KVBatchMeta, correct: NDArray[np.bool_]) -> tuple[Scored, float]:
        """Rewards and weights of a batch, and its entropy; also writes the advantages.

        The entropy, in nats per token, is the mean of -log p over the sampled tokens: the servers
        return only these. Its expectation is the entropy of the sampling distributions.

        Args:
            batch: sorted by prompt.
            correct: of each response.
        """
        data = fields(batch, "responses", "rollout_log_probs")
        tokens = response_tokens(data)
        lengths, shape = [len(response) for response in tokens], (-1, self.cell.n)
        name, tokenizer = self.cell.reward, self.tokenizer
        rewards = torch.from_numpy(
            named_rewards(name, correct, tokens, tokenizer, self.config)
        ).view(shape)
        advantages = response_advantages(rewards, self.cell.objective, self.cell.k)
        scored = Scored(
            torch.tensor(lengths).view(shape),
            torch.tensor([response[-1] in self.tokenizer.ends for response in tokens]).view(shape),
            torch.from_numpy(correct).view(shape),
            rewards,
            (advantages / self.cell.n).float(),
        )
        self._write_advantages(batch, scored)
        entropy = -torch.cat(data["rollout_log_probs"].unbind()).double().mean().item()
        return scored, entropy

    def _write_advantages(self, batch: KVBatchMeta, scored: Scored) -> None:
        """Put advantages and rewards in the columns that verl's actor and metrics read."""
        lengths = scored.lengths.flatten().tolist()
        advantages = (self.cell.n * scored.weights).flatten().tolist()
        columns = {
            "advantages": on_every_token(advantages, lengths),
            "returns": on_every_token(advantages, lengths),
            "rm_scores": on_last_token(scored.rewards.flatten().tolist(), lengths),
        }
        put_fields(batch, columns)
