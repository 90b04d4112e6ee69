"""verl's synchronous trainer with this package's step: reward, weigh, drop and update.

`driver.py` calls `train`.

Depends on verl/trainer/ppo/v1/trainer_base.py (methods of `PPOTrainer` that are overridden or
called here), verl/trainer/ppo/v1/trainer_sync.py, verl/trainer/main_ppo.py (the function `train`
below replaces its runner), and verl/trainer/ppo/v1/agent_loop_tq.py.
"""

import json
import logging
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import ray
import torch
import transfer_queue
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from torch import Tensor
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.metric import reduce_metrics
from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions

from rspo.adapters.verl_advantages import response_advantages
from rspo.config.experiment import Experiment
from rspo.core.gpus import gpu_bytes, gpu_name, peak_flops
from rspo.core.signals import Stopped, is_requested
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import Verify, verifier_of
from rspo.training.adam import learning_rate_factor, require_finite
from rspo.training.events import scalars_of
from rspo.training.logs import sampler_warning, steps_above
from rspo.training.mfu import model_flops_utilization
from rspo.training.records import Record, Stopwatch, record_of
from rspo.training.rewards import Scored, named_rewards, verify_tokens
from rspo.training.run_log import RunLog
from rspo.training.validation import held_out_prompts, is_due, validation_record
from rspo.training.verl.batches import (
    fields,
    kept_rows,
    on_every_token,
    on_last_token,
    put_fields,
    response_tokens,
    sampler_difference,
    sort_by_prompt,
    update_settings,
)
from rspo.training.verl.checkpoints import RECORDS_FILE, keep_the_last
from rspo.training.verl.peak import Peak
from rspo.training.verl.prompt_dataset import PromptsInOrder
from rspo.training.verl.section import experiment_of
from rspo.training.verl.verification import POLL_SECONDS, Verification, sample_held_out
from rspo.training.verl.worker import PolicyWorker

_log = logging.getLogger(__name__)
_SECONDS_BETWEEN_READINGS = 1.0  # of the memory in use


def train(config: DictConfig) -> None:
    """Train until the last step's checkpoint is written.

    Raises: Stopped after an earlier checkpoint, if a stop was requested.
    """
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    experiment = experiment_of(config.rspo)
    verdicts = experiment.files.verdicts(config.rspo.cell, "train")
    transfer_queue.init(config.transfer_queue)  # ends with the Ray cluster
    verifier = experiment.config.verifier
    # The judge's servers start first: vLLM checks how much memory of a GPU is free.
    with verifier_of(experiment, verifier, verdicts, _gpus(experiment)) as verify:
        trainer = RSPOTrainer(config, verify)
        trainer.init()
        agents = AgentLoopManagerTQ.create(
            config=config,
            llm_client=trainer.get_llm_client(),
            teacher_client=trainer.get_teacher_client(),
            reward_loop_worker_handles=None,  # the trainer computes the rewards
        )
        trainer.fit(agents)


def _gpus(experiment: Experiment) -> list[str]:
    """Names of this node's GPUs that train, for CUDA_VISIBLE_DEVICES."""
    if not experiment.trains_on_gpus:
        return []
    assert experiment.config.verl is not None  # because it trains with verl
    numbers = [str(number) for number in range(experiment.config.verl.ranks)]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[: len(numbers)] if visible else numbers


class RSPOTrainer(PPOTrainerSync):
    """Trains one cell, resuming from its last checkpoint if there is one.

    run_log: set when verl looks for a checkpoint, before the first step.
    stopping: whether a stop was requested; training then ends before the next step.
    clock: measures the phases of the current step.
    weights_seconds: time for sending the weights that sample the current step to the servers.
    difference: how far sampler and actor differ in the current step, see `sampler_difference`.
    remaining: the rows of the current step's batch that were not dropped.
    memory_gb: peak memory of each phase, in 10^9 bytes.
    """

    run_log: RunLog
    stopping = False
    clock: Stopwatch
    weights_seconds: float
    difference: dict[str, float]
    remaining: list[int]
    memory_gb: dict[str, float]

    def __init__(self, config: DictConfig, verify: Verify) -> None:
        super().__init__(config)
        self.replay_buffer.poll_interval = POLL_SECONDS
        self.experiment = experiment_of(config.rspo)
        self.cell = self.experiment.cell(config.rspo.cell)
        self.training = self.experiment.config.training
        self.verify = verify
        self.ranks = config.trainer.n_gpus_per_node
        self.chat_tokenizer = ChatTokenizer(Path(config.actor_rollout_ref.model.path))
        self.held_out = held_out_prompts(self.experiment, self.chat_tokenizer)
        # The memory of the fullest GPU: PyTorch's peak would lack the servers of policy and judge.
        gpus = self.experiment.trains_on_gpus
        used = partial(gpu_bytes, "used") if gpus else lambda: psutil.virtual_memory().used
        self.memory = Peak(used, _SECONDS_BETWEEN_READINGS)
        self.memory_gb = {}
        self.parameters = self.experiment.config.models[self.cell.model].parameters
        self.peak = peak_flops(gpu_name()) if gpus else None

    def _init_dataloader(self) -> None:
        """Keep the number of updates in the optimizer's settings.

        verl would replace it by the number of training steps.
        """
        updates = self.config.actor_rollout_ref.actor.optim.total_training_steps
        super()._init_dataloader()
        self.config.actor_rollout_ref.actor.optim.total_training_steps = updates

    def _init_resource_pool_mgr(self) -> None:
        """Train with this package's worker instead of verl's."""
        super()._init_resource_pool_mgr()
        self.role_worker_mapping[Role.ActorRollout] = ray.remote(PolicyWorker)

    @property
    def _records_file(self) -> Path:
        checkpoints = Path(self.config.trainer.default_local_dir)
        return checkpoints / f"global_step_{self.global_steps}" / RECORDS_FILE

    def _save_checkpoint(self) -> None:
        """Write the records, then verl's checkpoint, then remove the previous one.

        Only the checkpoint of the last step has the policy as a Hugging Face folder. verl marks its
        checkpoint as complete at the end, so a kill at any time leaves one complete checkpoint with
        its records.
        """
        self._records_file.parent.mkdir(parents=True, exist_ok=True)
        self._records_file.write_text(json.dumps(self.run_log.records))
        is_last = self.global_steps == self.config.trainer.total_training_steps
        self.actor_rollout_wg.set_policy_in_checkpoints(is_last)
        super()._save_checkpoint()
        keep_the_last(Path(self.config.trainer.default_local_dir))

    def _load_checkpoint(self) -> None:
        """Load verl's last checkpoint and its records, and begin the log of this run."""
        super()._load_checkpoint()
        records: list[Record] = []
        if self.global_steps:  # 0 if there is no checkpoint
            records = json.loads(self._records_file.read_text())
        self.run_log = RunLog(self.experiment, self.cell.name, records)

    def on_init_end(self) -> None:
        """verl calls this before the first step, and sends the weights to the servers."""
        self._send_weights(super().on_init_end)

    def on_step_begin(self) -> None:
        """verl calls this after it has logged the previous step.

        Raises: Stopped if that step was the last before a requested stop.
        """
        if self.stopping:
            raise Stopped(self.global_steps - 1)  # verl has counted the step that now begins
        self.clock = Stopwatch()
        super().on_step_begin()

    def on_step_end(self) -> None:
        """verl calls this after a step, and after its checkpoint if one is due."""
        self.stopping = is_requested() and self.global_steps < self.training.steps
        if not self.stopping:
            self._send_weights(super().on_step_end)
        elif self.global_steps % self.training.checkpoint_every:  # else verl has saved it
            self._save_checkpoint()

    @property
    def has_logger(self) -> bool:
        """Whether the config names a logger of verl, which gets verl's metrics of each step."""
        return bool(self.config.trainer.logger)

    def _compute_metrics(self, *arguments: Any, **options: Any) -> None:
        """Compute verl's metrics of a step, if one of verl's loggers gets them.

        verl would fetch seven columns of all responses for them in any case.
        """
        if self.has_logger:
            super()._compute_metrics(*arguments, **options)

    def _lap(self, phase: str) -> None:
        """End a phase of the step: note its seconds and its peak memory."""
        self.clock.lap(phase)
        self._note_memory(phase)

    def _note_memory(self, phase: str) -> None:
        self.memory_gb[phase] = round(self.memory.take() / 1e9, 2)

    def _send_weights(self, send: Callable[[], None]) -> None:
        """Call `send`, which sends the weights to the servers; note its seconds and memory."""
        if self.run_log.records:
            self._note_memory("checkpoint")  # this phase includes the validation before it
        started = time.perf_counter()
        send()
        self.weights_seconds = time.perf_counter() - started
        self._note_memory("weights")

    def _step_once(
        self, metrics: dict[str, Any], timing_raw: dict[str, Any], sample_batch_size: int
    ) -> KVBatchMeta:
        """One step of training; adds its record to `records`."""
        dataset: PromptsInOrder = self.train_dataset
        verification = Verification(dataset.prompts, dataset.rows, self.chat_tokenizer, self.verify)
        verification.until_sampled(sample_batch_size)
        # All responses are in the queue, so this returns at once.
        batch, _ = self.replay_buffer.sample(
            global_steps=self.global_steps, partition_id="train", batch_size=sample_batch_size
        )
        self.on_sample_end()  # the servers release their memory
        expected = self.training.prompts_per_step * self.cell.n
        sort_by_prompt(batch, expected, f"step {self.global_steps}")
        self._lap("sample")
        scored, entropy = self._score(batch, verification.correct_of(batch))
        self._lap("reward")
        updates = self._updates(batch, scored, metrics)
        self._lap("update")
        seconds = self.clock.seconds | {"weights": self.weights_seconds}
        optimizer = self.training.optimizer
        record = record_of(self.global_steps - 1, scored, entropy, updates, seconds, optimizer)
        record |= {"sampler": self.difference, "memory_gb": dict(self.memory_gb)}
        if is_due(self.global_steps, self.training):
            record |= self._validation()
        utilization = self._utilization(batch, seconds["update"])
        if utilization is not None:
            record["mfu"] = utilization
        self.run_log.add(record)
        records = self.run_log.records
        if steps_above(records) == [record["step"]]:  # warn once, at the first such step
            _log.warning("%s", sampler_warning({self.cell.name: records}))
        # For verl's loggers. The entropy replaces verl's, which depends on loss_agg_mode and on
        # dropped responses.
        metrics |= scalars_of(record) | {"actor/entropy": entropy}
        timing_raw.update(seconds)
        return batch

    def _score(self, batch: KVBatchMeta, correct: NDArray[np.bool_]) -> tuple[Scored, float]:
        """Compute rewards, weights and entropy of a batch, and write its advantages to the queue.

        The entropy, in nats per token, is the mean of -log p over the sampled tokens, because the
        servers return the probabilities of no other tokens. Its expectation is the entropy of the
        sampling distributions.

        Args:
            batch: sorted by prompt.
            correct: whether each response is correct.
        """
        cell = self.cell
        tokenizer = self.chat_tokenizer
        data = fields(batch, "responses", "rollout_log_probs")
        tokens = response_tokens(data)
        lengths = [len(response) for response in tokens]
        finished = [response[-1] in tokenizer.ends for response in tokens]
        config = self.experiment.config
        rewards = torch.from_numpy(named_rewards(cell.reward, correct, tokens, tokenizer, config))
        k = self.training.k_at(self.global_steps - 1, cell.k)
        advantages = response_advantages(rewards.view(-1, cell.n), cell.objective, k)
        scored = Scored.from_columns(lengths, finished, correct, rewards, advantages / cell.n)
        on_tokens = on_every_token((cell.n * scored.weights).flatten().tolist(), lengths)
        columns = {"advantages": on_tokens}
        # Two more, which nothing else reads.
        if self.has_logger or self.config.trainer.rollout_data_dir:
            columns |= {"returns": on_tokens, "rm_scores": on_last_token(rewards.tolist(), lengths)}
        put_fields(batch, columns)
        log_probs = torch.cat(data["rollout_log_probs"].unbind()).double()
        return scored, -log_probs.mean().item()

    def _validation(self) -> dict[str, dict[str, float]]:
        """Pass@k and Max@k on held-out problems, sampled with the weights of this step."""
        assert self.held_out is not None  # because `is_due`
        prompts = self.held_out
        samples = self.training.validation.samples
        rollout = self.config.actor_rollout_ref.rollout
        parameters = {name: rollout[name] for name in ("temperature", "top_p", "top_k")}
        parameters["repetition_penalty"] = 1.0  # as verl's agent loops do in training
        # Wake the servers with the new weights; afterwards, they release their memory again.
        self.checkpoint_manager.update_weights(self.global_steps)
        tokens = sample_held_out(
            self.get_llm_client(), prompts.tokens, samples, self.global_steps, parameters
        )
        self.checkpoint_manager.sleep_replicas()
        rows: list[int] = []  # for each response, the row of its prompt
        for row in range(len(prompts.tokens)):
            rows += [row] * samples
        correct = verify_tokens(tokens, rows, prompts, self.chat_tokenizer, self.verify)
        return validation_record(correct, tokens, self.chat_tokenizer, self.experiment.config)

    def _updates(
        self, batch: KVBatchMeta, scored: Scored, metrics: dict[str, Any]
    ) -> list[dict[str, float]]:
        """One update per mini-batch of prompts, on its responses with non-zero weight.

        Returns: the metrics of each update for training.jsonl. verl's metrics, reduced over the
            updates, are added to `metrics`.
        """
        mini_batches = self._mini_batches(scored)
        lengths = scored.lengths.flatten()
        remaining: list[int] = []
        for rows in mini_batches:
            remaining += rows
        # The policy before the step, pi_old, is the denominator of PPO's ratio. Dropped responses
        # need no log-probabilities.
        with_log_probs = self._select(batch, self._balanced(remaining, lengths))
        self._compute_old_log_prob(with_log_probs, metrics)
        self.difference = sampler_difference(with_log_probs)
        self.remaining = remaining
        size = self.training.prompts_per_update * self.cell.n
        updates = [self._update(self._select(batch, rows), size) for rows in mini_batches]
        step = reduce_metrics({key: [update[key] for update in updates] for key in updates[0]})
        for key, value in step.items():
            name = key if "/" in key else f"actor/{key}"
            metrics[name] = value
        first = (self.global_steps - 1) * len(updates)
        return [self._record(number, update) for number, update in enumerate(updates, first)]

    def _utilization(self, batch: KVBatchMeta, seconds: float) -> float | None:
        """The MFU of log-probabilities and updates; None without GPUs or without their peak."""
        if self.parameters is None or self.peak is None:
            return None
        # verl's tag `seq_len` counts the tokens of prompt and response.
        tokens = sum(batch.tags[row]["seq_len"] for row in self.remaining)
        return model_flops_utilization(
            self.parameters, tokens, tokens, seconds, self.ranks, self.peak
        )

    def _mini_batches(self, scored: Scored) -> list[list[int]]:
        """The rows of each mini-batch to update on, balanced among the ranks."""
        weights = scored.weights.flatten()
        lengths = scored.lengths.flatten()
        size = self.training.prompts_per_update * self.cell.n
        # With `token-mean`, verl's actor divides the loss by the number of tokens that it receives,
        # so dropping responses would change the loss.
        drops = self.training.drop_zero_weights and self.training.loss_aggregation != "token-mean"
        mini_batches = []
        for first in range(0, len(weights), size):
            part = slice(first, first + size)
            rows = list(range(len(weights[part])))
            if drops:
                rows = kept_rows(weights[part], lengths[part], self.ranks)
            mini_batches.append(self._balanced([first + row for row in rows], lengths))
        return mini_batches

    def _record(self, number: int, update: dict[str, float]) -> dict[str, float]:
        """The metrics of an update for training.jsonl; `number` counts updates from 0."""
        optim = self.config.actor_rollout_ref.actor.optim
        done = number / optim.total_training_steps
        factor = learning_rate_factor(done, self.training.optimizer)
        return {
            "gradient_norm": update["grad_norm"],
            "clipped": update["actor/pg_clipfrac"],
            "learning_rate": optim.lr * factor,
        }

    def _update(self, batch: KVBatchMeta, mini_batch: int) -> dict[str, float]:
        """Make one update on the remaining responses of a mini-batch; return verl's metrics.

        Args:
            mini_batch: number of its responses before dropping.

        Raises: InputError if the gradient is not finite.
        """
        section = self.config.actor_rollout_ref
        batch.extra_info.update(update_settings(section, mini_batch, len(batch)))
        output = self.actor_rollout_wg.update_actor(batch)
        metrics: dict[str, float] = reduce_metrics(output["metrics"])
        rate = section.actor.optim.lr
        # verl would skip an update whose gradient is not finite, and go on.
        require_finite(metrics["grad_norm"], self.cell.name, self.global_steps, rate)
        return metrics

    def _balanced(self, rows: list[int], lengths: Tensor) -> list[int]:
        """Order rows so that each rank's part has a similar number of tokens.

        verl splits the rows, in their order, into one part of equal size for each rank.
        """
        parts = get_seqlen_balanced_partitions(
            lengths[rows].tolist(), k_partitions=self.ranks, equal_size=True
        )
        return [rows[index] for part in parts for index in part]

    def _select(self, batch: KVBatchMeta, rows: list[int]) -> KVBatchMeta:
        return batch.select_keys([batch.keys[row] for row in rows])
