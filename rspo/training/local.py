"""RSPO in one process: sample, reward, weigh, update. The algorithm as the paper states it.

    for each step:
        draw n responses to each of the next prompts                       (sampler.py)
        reward each response                                               (rspo.rewards)
        weigh the responses of each prompt                                 (rspo.objectives)
        for each mini-batch of prompts: one step of Adam on
            - 1/|prompts| sum_x sum_i sum_t  min(w_i r_it, w_i clip(r_it, 1 - e, 1 + e))

with r_it the probability ratio of token t to the policy that sampled it. Responses of weight 0
are dropped after the mini-batches are formed; the sum is divided by the prompts there were, so
dropping saves time and changes nothing.

Left out against verl: GPUs, several processes, a critic, a KL term, an entropy bonus. For models
that one CPU can train.
"""

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rspo.config import fingerprints
from rspo.config.experiment import Cell, Experiment, base_name
from rspo.config.schema import Training
from rspo.core.errors import InputError
from rspo.core.files import atomic_write, sha256, write_json_lines
from rspo.core.locks import exclusive_lock
from rspo.core.provenance import write_provenance
from rspo.core.seeds import generator_of
from rspo.core.signals import Stopped, is_requested
from rspo.objectives import response_weights
from rspo.policies import qwen2
from rspo.policies.prompt_limit import report_too_long
from rspo.policies.qwen2 import Qwen2, response_logits
from rspo.policies.sampler import Responses, sample
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import Verify, verifier_inputs, verifier_of
from rspo.slurm.orphans import renew_records
from rspo.training.checkpoint import has_state, load_checkpoint, save_checkpoint
from rspo.training.origin import remove_checkpoints, use_checkpoint_of
from rspo.training.progress import Progress, say_where_it_goes_on, usage_before
from rspo.training.prompts import Prompts, prompts_of_step, read_prompts
from rspo.training.records import Scored, judge, record_of, rewards_of
from rspo.training.schedule import learning_rate_share
from rspo.training.validation import held_out_prompts, is_due, log_origin, validation_record

# Responses in one forward and backward pass; more than fits the cache of a core is slower.
CHUNK = 128
# Held-out problems sampled together.
HELD_OUT_CHUNK = 32


@dataclass(frozen=True)
class Rollout:
    """One step's responses with what they earned; rewards and weights are (prompts, n)."""

    prompts: Tensor  # (P, L) ids
    responses: Responses
    correct: Tensor
    rewards: Tensor
    weights: Tensor


def train(experiment: Experiment, name: str) -> None:
    """Train one cell: its policy folder, and training.jsonl with one line a step.

    A killed run goes on from its last checkpoint and ends in the same policy, bit for bit.

    Raises: InputError for missing or bad inputs, when another process trains the same cell, and
        when the gradient is no longer finite; Stopped behind a checkpoint, on request.
    """
    cell, verifier = experiment.cell(name), experiment.config.verifier
    verdicts = experiment.verdicts(name, "train")
    with (
        exclusive_lock(experiment.folder(name)),
        verifier_of(experiment, verifier, verdicts) as verify,
    ):
        base = experiment.existing_policy(base_name(cell.model))
        data = experiment.problems("train")
        tokenizer = ChatTokenizer(base)
        sampling = experiment.config.sampling
        prompts, left_out = read_prompts(data, tokenizer, sampling)
        notes = report_too_long(left_out, sampling, "left out of training")
        held_out = held_out_prompts(experiment, tokenizer)
        learner = Learner(experiment, cell, qwen2.load(base), verify)
        # What a checkpoint must have been made with to be gone on from.
        origin = {
            "settings": fingerprints.settings(experiment, "train", name),
            "base": sha256(base / "model.safetensors"),
            "problems": sha256(data),
        }
        use_checkpoint_of(experiment.checkpoint(name), origin, has_state)
        earlier = usage_before(experiment.checkpoint(name))
        records = _run(experiment, learner, prompts, held_out, tokenizer)
        with atomic_write(experiment.policy(name)) as partial:
            # Snakemake's timestamp of the base folder would make the new one look as old.
            shutil.copytree(base, partial, ignore=shutil.ignore_patterns(".snakemake*"))
            ids = {"eos_token_id": tokenizer.end, "pad_token_id": tokenizer.pad}
            qwen2.save(learner.model, partial, ids)
        write_json_lines(experiment.training_log(name), records)
        inputs = [base, data, *verifier_inputs(experiment, verifier)]
        log_settings, log_inputs = log_origin(experiment, origin)
        for path, settings, used in (
            (experiment.policy(name), origin, inputs),
            (experiment.training_log(name), log_settings, [*inputs, *log_inputs]),
        ):
            write_provenance(path, settings, used, notes=notes, earlier=earlier)
        renew_records(experiment, name)
        remove_checkpoints(experiment.checkpoint(name))


def _run(
    experiment: Experiment,
    learner: "Learner",
    prompts: Prompts,
    held_out: Prompts | None,
    tokenizer: ChatTokenizer,
) -> list[dict[str, Any]]:
    """All steps that are left, with checkpoints in between; the records of all steps."""
    training, checkpoint = learner.training, experiment.checkpoint(learner.cell.name)
    records = learner.resume(checkpoint)
    say_where_it_goes_on(learner.cell.name, len(records), training.steps)
    progress = Progress(checkpoint, len(records), training.steps)
    for step in range(len(records), training.steps):
        records.append(learner.step(step, prompts, tokenizer))
        if held_out is not None and is_due(step + 1, training):
            records[-1] |= learner.validate(step, held_out, tokenizer)
        progress.report(step + 1, {key: records[-1][key] for key in ("reward", "entropy")})
        stop = is_requested() and step + 1 < training.steps
        if stop or (step + 1) % training.checkpoint_every == 0:
            learner.save(checkpoint, records)
        if stop:
            raise Stopped(step + 1)
    return records


class Learner:
    """A policy, its optimizer, and one step of training."""

    def __init__(self, experiment: Experiment, cell: Cell, model: Qwen2, verify: Verify) -> None:
        self.config, self.cell, self.model, self.verify = experiment.config, cell, model, verify
        self.training: Training = experiment.config.training
        optimizer = self.training.optimizer
        self.peak_rate = experiment.config.models[cell.model].learning_rate
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=self.peak_rate,
            betas=optimizer.betas,
            weight_decay=optimizer.weight_decay,
        )
        # Adam skips parameters without a gradient; with zeros, a mini-batch in which nothing is
        # left still moves them by their momentum, as it would without dropping.
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)

    def resume(self, checkpoint: Path) -> list[dict[str, Any]]:
        """Go back to the last checkpoint, if there is one; the records of the steps behind it."""
        state = load_checkpoint(checkpoint)
        if state is None:
            return []
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        records: list[dict[str, Any]] = json.loads(state["records"])
        return records

    def save(self, checkpoint: Path, records: list[dict[str, Any]]) -> None:
        """Write a checkpoint."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "records": json.dumps(records),
        }
        save_checkpoint(checkpoint, state)

    def step(self, step: int, prompts: Prompts, tokenizer: ChatTokenizer) -> dict[str, Any]:
        """One step of training; returns its record for training.jsonl."""
        seconds = {}
        started = time.perf_counter()
        rows = prompts_of_step(prompts.families, self.training, self.cell.seed, step)
        generator = generator_of(self.cell.seed, "sampling", step)
        asked = [prompts.tokens[row] for row in rows]
        responses = self.respond(asked, self.cell.n, tokenizer, generator)
        seconds["sample"] = time.perf_counter() - started
        rollout = self.reward(prompts, rows, responses, tokenizer)
        seconds["reward"] = time.perf_counter() - started - seconds["sample"]
        updates = [self.update(step, rollout, part) for part in self.mini_batches()]
        seconds["update"] = time.perf_counter() - started - sum(seconds.values())
        lengths, shape = responses.lengths, rollout.weights.shape
        scored = Scored(
            lengths.view(shape),
            responses.finished.view(shape),
            rollout.correct,
            rollout.rewards,
            rollout.weights,
        )
        entropy = (responses.entropy.sum() / lengths.sum()).item()
        return record_of(step, scored, entropy, updates, seconds)

    def respond(
        self,
        prompts: Sequence[Sequence[int]],
        n: int,
        tokenizer: ChatTokenizer,
        generator: torch.Generator,
    ) -> Responses:
        """n responses to every prompt, by the policy as it is."""
        return sample(
            self.model,
            prompts,
            n,
            max_tokens=self.config.sampling.max_response_tokens,
            end=tokenizer.end,
            pad=tokenizer.pad,
            generator=generator,
            temperature=self.config.sampling.temperature,
        )

    def reward(
        self, prompts: Prompts, rows: list[int], responses: Responses, tokenizer: ChatTokenizer
    ) -> Rollout:
        """Judge the responses and weigh them, before anything is dropped."""
        n, lengths = self.cell.n, responses.lengths.tolist()
        of_response = [row for row in rows for _ in range(n)]
        correct = judge(tokens_of(responses), of_response, prompts, tokenizer, self.verify)
        rewards = rewards_of(correct, lengths, self.cell, self.config)
        weights = response_weights(rewards.reshape(-1, n), self.cell.objective, self.cell.k)
        return Rollout(
            torch.tensor([prompts.tokens[row] for row in rows]),
            responses,
            torch.from_numpy(correct.reshape(-1, n)),
            torch.from_numpy(rewards.reshape(-1, n)),
            torch.from_numpy(weights).float(),
        )

    def validate(
        self, step: int, held_out: Prompts, tokenizer: ChatTokenizer
    ) -> dict[str, dict[str, float]]:
        """Pass@k and Max@k on held-out problems after a step, counted from 0."""
        samples, count = self.training.validation.samples, len(held_out.tokens)
        tokens: list[list[int]] = []
        for first in range(0, count, HELD_OUT_CHUNK):
            prompts = held_out.tokens[first : first + HELD_OUT_CHUNK]
            generator = generator_of(self.cell.seed, "validation", step, first)
            tokens += tokens_of(self.respond(prompts, samples, tokenizer, generator))
        rows = [row for row in range(count) for _ in range(samples)]
        correct = judge(tokens, rows, held_out, tokenizer, self.verify)
        return validation_record(correct, [len(ids) for ids in tokens], self.config)

    def mini_batches(self) -> Iterator[Tensor]:
        """Rows of the prompts in each mini-batch, in the order of the step's prompts."""
        yield from torch.arange(self.training.prompts_per_step).split(
            self.training.mini_batch_prompts
        )

    def update(self, step: int, rollout: Rollout, part: Tensor) -> dict[str, float]:
        """One step of Adam on the prompts of one mini-batch."""
        done = step * self.training.prompts_per_step + int(part[0])
        total = self.training.steps * self.training.prompts_per_step
        rate = self.peak_rate * learning_rate_share(done / total, self.training.optimizer)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=False)
        temperature = self.config.sampling.temperature
        clipped = backward(self.model, rollout, part, self.training.ppo_clip, temperature)
        limit = self.training.optimizer.gradient_clip
        norm = torch.nn.utils.clip_grad_norm_(
            self.model.parameters(), float("inf") if limit is None else limit
        )
        if not torch.isfinite(norm):
            raise InputError(
                f"{self.cell.name}: the gradient is not finite at step {step + 1} "
                f"(learning_rate = {self.peak_rate}); a lower learning_rate may help"
            )
        self.optimizer.step()
        return {"gradient_norm": float(norm), "clipped": clipped, "learning_rate": rate}


def tokens_of(responses: Responses) -> list[list[int]]:
    """The tokens of each response, without the padding behind it."""
    lengths = responses.lengths.tolist()
    return [ids[:length] for ids, length in zip(responses.tokens.tolist(), lengths, strict=True)]


def backward(
    model: Qwen2,
    rollout: Rollout,
    part: Tensor,
    ppo_clip: float,
    temperature: float = 1.0,
    drop_zeros: bool = True,
) -> float:
    """Add the gradient of one mini-batch's loss to the model's; the share of clipped tokens.

    Args:
        part: rows of the mini-batch's prompts.
        temperature: that the responses were sampled at; the policy is the distribution there.
        drop_zeros: leave out responses of weight 0, which cannot change the sum.
    """
    n = rollout.weights.shape[1]
    rows = (part[:, None] * n + torch.arange(n)).flatten()
    weights = rollout.weights.flatten()
    if drop_zeros:
        rows = rows[weights[rows] != 0]
    # By length, so that short responses are not padded to long ones.
    rows = rows[torch.argsort(rollout.responses.lengths[rows], stable=True)]
    clipped = tokens = 0
    for chunk in rows.split(CHUNK) if len(rows) else ():
        loss, clipped_here, tokens_here = _surrogate(model, rollout, chunk, ppo_clip, temperature)
        (-loss / len(part)).backward()
        clipped, tokens = clipped + clipped_here, tokens + tokens_here
    return clipped / max(1, tokens)


def _surrogate(
    model: Qwen2, rollout: Rollout, rows: Tensor, ppo_clip: float, temperature: float
) -> tuple[Tensor, int, int]:
    """PPO's clipped surrogate summed over the tokens of some responses; clipped and all tokens."""
    responses, n = rollout.responses, rollout.weights.shape[1]
    longest = int(responses.lengths[rows].max())
    tokens = responses.tokens[rows, :longest]
    mask = responses.mask[rows, :longest]
    used, prompt_of = torch.unique(rows // n, return_inverse=True)
    logits = response_logits(model, rollout.prompts[used], prompt_of, tokens) / temperature
    log_probs = logits.log_softmax(dim=-1).gather(-1, tokens[..., None])[..., 0]  # (B, T)
    ratio = torch.exp(log_probs - responses.log_probs[rows, :longest])
    weights = rollout.weights.flatten()[rows, None]
    kept_near = ratio.clamp(1 - ppo_clip, 1 + ppo_clip)
    surrogate = torch.minimum(weights * ratio, weights * kept_near)
    clipped = (weights * kept_near < weights * ratio) & mask
    return surrogate[mask].sum(), int(clipped.sum()), int(mask.sum())
