"""What a batch of responses is worth: rewards and weights, before anything is dropped."""

from collections.abc import Sequence

import torch
from transfer_queue import KVBatchMeta

from rspo.config.experiment import Cell
from rspo.config.schema import Config
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import Verify
from rspo.training.prompts import Prompts
from rspo.training.records import Scored, judge, rewards_of
from rspo.training.verl.advantages import response_advantages
from rspo.training.verl.batches import (
    fields,
    on_every_token,
    on_last_token,
    put_fields,
    response_tokens,
)


class Scoring:
    """Rewards and weighs the batches of one cell."""

    def __init__(self, config: Config, cell: Cell, chat: ChatTokenizer, verify: Verify) -> None:
        self.config, self.cell, self.chat, self.verify = config, cell, chat, verify

    def score(
        self, batch: KVBatchMeta, rows: Sequence[int], prompts: Prompts
    ) -> tuple[Scored, float]:
        """Reward and weigh a batch, its prompts in order; what it is worth, and its entropy.

        The entropy, nats a token, is the mean of -log p over the tokens that were sampled, which
        is what the servers tell; its expectation is the entropy of the distributions they were
        sampled from.

        Args:
            rows: the prompt of each response, a row of `prompts`.
        """
        data = fields(batch, "responses", "rollout_log_probs")
        tokens = response_tokens(data)
        lengths, shape = [len(response) for response in tokens], (-1, self.cell.n)
        correct = judge(tokens, rows, prompts, self.chat, self.verify)
        rewards = torch.from_numpy(rewards_of(correct, lengths, self.cell, self.config)).view(shape)
        advantages = response_advantages(rewards, self.cell.objective, self.cell.k)
        limit = self.config.sampling.max_response_tokens
        scored = Scored(
            torch.tensor(lengths).view(shape),
            # Below the limit a server stops at an end token only; a model may have several.
            torch.tensor(
                [len(response) < limit or response[-1] == self.chat.end for response in tokens]
            ).view(shape),
            torch.from_numpy(correct).view(shape),
            rewards,
            (advantages / self.cell.n).float(),
        )
        self._write_advantages(batch, scored)
        entropy = -torch.cat(data["rollout_log_probs"].unbind()).double().mean().item()
        return scored, entropy

    def _write_advantages(self, batch: KVBatchMeta, scored: Scored) -> None:
        """Where verl's actor and its metrics look for them."""
        lengths = scored.lengths.flatten().tolist()
        advantages = (self.cell.n * scored.weights).flatten().tolist()
        columns = {
            "advantages": on_every_token(advantages, lengths),
            "returns": on_every_token(advantages, lengths),
            "rm_scores": on_last_token(scored.rewards.flatten().tolist(), lengths),
        }
        put_fields(batch, columns)
