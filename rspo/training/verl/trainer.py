"""verl's synchronous trainer with this project's step: reward, weigh, drop, update.

    verl's step                          here
    sample from the replay buffer        the same; then put into the order of the prompts
    rewards (per response, on the way)   `rspo.rewards`, for the whole batch
    balance ranks, log-probabilities     after weighing and dropping, on what is left
    advantages (an estimator)            n * `rspo.objectives`, in the order of sampling
    update                               one call for each mini-batch, formed before dropping

Depends on verl/trainer/ppo/v1/trainer_base.py (`PPOTrainer`: every method overridden or called
here) and verl/trainer/ppo/v1/trainer_sync.py.
"""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from omegaconf import DictConfig
from torch import Tensor
from transfer_queue import KVBatchMeta
from verl.experimental.agent_loop import AgentLoopManager
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.metric import reduce_metrics
from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions
from verl.workers.engine_workers import ActorRolloutRefWorker

from rspo.core.errors import InputError
from rspo.core.signals import Stopped, is_requested
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards.configured import Verify
from rspo.training.adam import learning_rate_factor
from rspo.training.progress import Progress
from rspo.training.records import Scored, judge, record_of
from rspo.training.validation import held_out_prompts, is_due, validation_record
from rspo.training.verl.batches import as_metrics, put_in_order
from rspo.training.verl.checkpoints import NOTE_FILE, RECORDS_FILE, keep_the_last
from rspo.training.verl.dropping import kept_rows, update_settings
from rspo.training.verl.held_out import held_out_responses
from rspo.training.verl.interface import require_parameters, require_version, require_words
from rspo.training.verl.prompt_dataset import PromptsInOrder, experiment_of
from rspo.training.verl.scoring import Scoring
from rspo.training.verl.worker import PolicyWorker

require_version()
for function, names in (
    (PPOTrainer._step_once, ("self", "metrics", "timing_raw", "sample_batch_size")),
    (PPOTrainer._compute_old_log_prob, ("self", "batch", "metrics")),
    (ActorRolloutRefWorker.update_actor, ("self", "data")),
    (PPOTrainer._init_dataloader, ("self",)),
    (PPOTrainer._init_resource_pool_mgr, ("self",)),
    (PPOTrainer._load_checkpoint, ("self",)),
    (PPOTrainer._save_checkpoint, ("self",)),
    (PPOTrainer.fit, ("self", "agent_loop_manager")),
    (PPOTrainer.on_step_begin, ("self",)),
    (PPOTrainerSync.on_init_end, ("self",)),
    (PPOTrainerSync.on_step_end, ("self",)),
):
    require_parameters(function, *names)
require_words(ReplayBuffer._wait_for_next_poll, "self.poll_interval")
require_words(PPOTrainer._init_resource_pool_mgr, "self.role_worker_mapping[", "Role.ActorRollout")
require_words(PPOTrainer._save_checkpoint, NOTE_FILE)

# How often the trainer asks whether all responses are there; verl's own 2 seconds are a tenth of a
# short step.
SECONDS_BETWEEN_LOOKS = 0.2


class Trainer(PPOTrainerSync):
    """Trains one cell, from its last checkpoint if there is one."""

    progress: Progress  # since the checkpoint was looked for, which comes before the first step
    stopping = False  # requested, and the checkpoint for it written
    began: float  # the running step, by time.perf_counter
    weights_seconds: float  # that the servers took for the running step's weights

    def __init__(self, config: DictConfig, verify: Verify) -> None:
        """
        Args:
            config: of `rspo.training.verl.verl_config`.
            verify: the config's verifier: responses, answers, questions -> verdicts.
        """
        super().__init__(config)
        self.replay_buffer.poll_interval = SECONDS_BETWEEN_LOOKS
        self.experiment = experiment_of(config.rspo)
        self.cell = self.experiment.cell(config.rspo.cell)
        self.training = self.experiment.config.training
        self.verify = verify
        self.chat = ChatTokenizer(Path(config.actor_rollout_ref.model.path))
        self.scoring = Scoring(self.experiment.config, self.cell, self.chat, verify)
        self.held_out = held_out_prompts(self.experiment, self.chat)
        self.records: list[dict[str, Any]] = []

    # --- what verl is given -----------------------------------------------------------------------

    def _init_dataloader(self) -> None:
        """verl counts steps in the schedule of the learning rate; here it counts updates."""
        updates = self.config.actor_rollout_ref.actor.optim.total_training_steps
        super()._init_dataloader()
        self.config.actor_rollout_ref.actor.optim.total_training_steps = updates

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        self.role_worker_mapping[Role.ActorRollout] = ray.remote(PolicyWorker)

    def fit(self, agent_loop_manager: AgentLoopManager) -> None:
        """Train; the loggers are finished however it ends.

        Raises: Stopped behind a checkpoint, if that is requested and steps are left.
        """
        try:
            super().fit(agent_loop_manager)
        finally:
            if hasattr(self, "logger"):  # unless it could not be made
                self.logger.finish()

    # --- checkpoints ------------------------------------------------------------------------------

    @property
    def _records_file(self) -> Path:
        checkpoints = Path(self.config.trainer.default_local_dir)
        return checkpoints / f"global_step_{self.global_steps}" / RECORDS_FILE

    def _save_checkpoint(self) -> None:
        """The records first: verl notes a checkpoint as whole when everything else is written.

        The one before goes only then, so a kill at any time leaves one that is whole.
        """
        self._records_file.parent.mkdir(parents=True, exist_ok=True)
        self._records_file.write_text(json.dumps(self.records))
        super()._save_checkpoint()
        keep_the_last(Path(self.config.trainer.default_local_dir))

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.global_steps:
            self.records = json.loads(self._records_file.read_text())
        checkpoints = self.experiment.checkpoint(self.cell.name)
        self.progress = Progress(checkpoints, self.global_steps, self.training.steps)

    # --- between steps ----------------------------------------------------------------------------

    def on_init_end(self) -> None:
        """verl sends the first step's weights."""
        self._send_weights(super().on_init_end)

    def on_step_begin(self) -> None:
        """verl calls it when it has logged the step before.

        Raises: Stopped, if that step was to be the last.
        """
        if self.stopping:
            raise Stopped(self.global_steps - 1)
        self.began = time.perf_counter()
        super().on_step_begin()

    def on_step_end(self) -> None:
        """verl calls it behind a step and, where one is due, its checkpoint."""
        self.stopping = is_requested() and self.global_steps < self.training.steps
        if not self.stopping:
            self._send_weights(super().on_step_end)
        elif self.global_steps % self.training.checkpoint_every:
            self._save_checkpoint()

    def _send_weights(self, send: Callable[[], None]) -> None:
        started = time.perf_counter()
        send()
        self.weights_seconds = time.perf_counter() - started

    # --- one step ---------------------------------------------------------------------------------

    def _step_once(
        self, metrics: dict[str, Any], timing_raw: dict[str, Any], sample_batch_size: int
    ) -> KVBatchMeta:
        """One step of training; its record joins `records`."""
        seconds = {}
        batch, _ = self.replay_buffer.sample(
            global_steps=self.global_steps, partition_id="train", batch_size=sample_batch_size
        )
        self.on_sample_end()
        expected = self.training.prompts_per_step * self.cell.n
        places = put_in_order(batch, expected, f"step {self.global_steps}")
        seconds["sample"] = time.perf_counter() - self.began
        dataset: PromptsInOrder = self.train_dataset
        rows = [dataset.rows[place] for place in places]
        scored, entropy = self.scoring.score(batch, rows, dataset.prompts)
        seconds["reward"] = time.perf_counter() - self.began - seconds["sample"]
        updates = self._updates(batch, scored, metrics)
        seconds["update"] = time.perf_counter() - self.began - sum(seconds.values())
        seconds["weights"] = self.weights_seconds
        record = record_of(self.global_steps - 1, scored, entropy, updates, seconds)
        if is_due(self.global_steps, self.training):
            record |= self._validation()
        metrics["actor/entropy"] = entropy  # verl's own follows loss_agg_mode and what is kept
        metrics.update(as_metrics(record))
        self._log(record)
        timing_raw.update(seconds)
        return batch

    def _validation(self) -> dict[str, dict[str, float]]:
        """Pass@k and Max@k on held-out problems, by the servers with the weights of this step."""
        assert self.held_out is not None  # is_due says so
        config, samples = self.experiment.config, self.training.validation.samples
        self.checkpoint_manager.update_weights(self.global_steps)
        tokens, rows = held_out_responses(
            self.agent_loop_manager, self.replay_buffer, self.held_out, samples, self.global_steps
        )
        self.checkpoint_manager.sleep_replicas()
        correct = judge(tokens, rows, self.held_out, self.chat, self.verify)
        return validation_record(correct, [len(ids) for ids in tokens], config)

    def _log(self, record: dict[str, Any]) -> None:
        self.records.append(record)
        self.progress.report(self.global_steps, {key: record[key] for key in ("reward", "entropy")})

    def _updates(
        self, batch: KVBatchMeta, scored: Scored, metrics: dict[str, Any]
    ) -> list[dict[str, float]]:
        """One update for each mini-batch of prompts, on its responses with a weight."""
        mini_batch = self.training.mini_batch_prompts * self.cell.n
        advantages, lengths = scored.weights.flatten(), scored.lengths.flatten()
        aggregation = self.config.actor_rollout_ref.actor.loss_agg_mode
        parts = []
        for first in range(0, len(batch), mini_batch):
            part = slice(first, first + mini_batch)
            rows = kept_rows(advantages[part], lengths[part], self._ranks(), aggregation)
            parts.append(self._balanced([first + row for row in rows], lengths))
        left = self._balanced([row for rows in parts for row in rows], lengths)
        self._compute_old_log_prob(self._select(batch, left), metrics)
        found = [self._update(self._select(batch, rows), mini_batch) for rows in parts]
        step = reduce_metrics({key: [update[key] for update in found] for key in found[0]})
        metrics.update({key if "/" in key else f"actor/{key}": step[key] for key in step})
        optim = self.config.actor_rollout_ref.actor.optim
        first = (self.global_steps - 1) * len(parts)
        return [
            {
                "gradient_norm": update["grad_norm"],
                "clipped": update["actor/pg_clipfrac"],
                "learning_rate": optim.lr
                * learning_rate_factor(
                    number / optim.total_training_steps, self.training.optimizer
                ),
            }
            for number, update in enumerate(found, first)
        ]

    def _update(self, batch: KVBatchMeta, mini_batch: int) -> dict[str, float]:
        """One update; verl's metrics of it.

        Args:
            mini_batch: responses in it before dropping.

        Raises: InputError if its gradient is not finite; verl would skip the update.
        """
        section = self.config.actor_rollout_ref
        batch.extra_info.update(update_settings(section, mini_batch, len(batch)))
        found: dict[str, float] = reduce_metrics(
            self.actor_rollout_wg.update_actor(batch)["metrics"]
        )
        if not math.isfinite(found["grad_norm"]):
            raise InputError(
                f"{self.cell.name}: the gradient is not finite at step {self.global_steps} "
                f"(learning_rate = {section.actor.optim.lr}); a lower learning_rate may help"
            )
        return found

    def _ranks(self) -> int:
        """Data-parallel ranks of the actor."""
        group = self.actor_rollout_wg
        if "actor" not in group._dispatch_info:
            group._dispatch_info["actor"] = group._query_dispatch_info("actor")
        return max(group._dispatch_info["actor"]) + 1

    def _balanced(self, rows: list[int], lengths: Tensor) -> list[int]:
        """Rows so ordered that the ranks, who take equal parts in turn, get as many tokens."""
        shares = get_seqlen_balanced_partitions(
            lengths[rows].tolist(), k_partitions=self._ranks(), equal_size=True
        )
        return [rows[place] for share in shares for place in share]

    def _select(self, batch: KVBatchMeta, rows: list[int]) -> KVBatchMeta:
        chosen = batch.select_keys([batch.keys[row] for row in rows])
        chosen.extra_info["temperature"] = self.config.actor_rollout_ref.rollout.temperature
        return chosen
