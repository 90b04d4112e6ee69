"""The trainer's step without Ray: the calls to verl's workers, and their order."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.replica import TokenOutput

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError, LostProcess
from rspo.core.peak import Peak
from rspo.core.signals import Stopped
from rspo.training.prompts import read_prompts
from rspo.training.records import Scored, Stopwatch
from rspo.training.verl import held_out, prompt_dataset
from rspo.training.verl import trainer as trainer_module
from rspo.training.verl.batches import sort_by_prompt
from rspo.training.verl.checkpoints import LATEST_FILE
from rspo.training.verl.interface import require_source
from rspo.training.verl.prompt_dataset import PromptLoop
from rspo.training.verl.trainer import Trainer
from rspo.training.verl.verification import Verification
from rspo.training.verl.verl_config import verl_config
from rspo.training.verl.worker import ScheduledEngine
from tests.support import tiny_world

N, MINI_BATCH, MINI_BATCHES, STEPS = 2, 3, 2, 4
ROWS = N * MINI_BATCH  # of a mini-batch
CELL = f"small--policy-gradient--k1--n{N}--s0"
WARMUP = 0.25


def changes(**training: object) -> dict[str, Any]:
    """Settings: steps of two mini-batches of three prompts with two responses each."""
    sizes = {
        "steps": STEPS,
        "prompts_per_step": MINI_BATCH * MINI_BATCHES,
        "mini_batch_prompts": MINI_BATCH,
    }
    spec = {"model": "small", "objective": "policy_gradient", "n": N}
    return {
        "engine": "verl",
        "training": tiny_world.OVERRIDES["training"] | sizes | training,
        "grid": {"main": {"suite": "standard", "cells": [spec]}},
    }


def load(root: Path, **training: object) -> Experiment:
    return tiny_world.load(root, **changes(**training))


def trainer_of(experiment: Experiment, step: int = 1, ranks: int = 1) -> Trainer:
    """A trainer at a step, without the processes that verl starts."""
    trainer = Trainer.__new__(Trainer)
    trainer.config = verl_config(experiment, CELL)
    trainer.experiment, trainer.cell = experiment, experiment.cell(CELL)
    trainer.training, trainer.global_steps = experiment.config.training, step
    trainer.actor_rollout_wg = Actor(ranks)
    trainer.records = []
    trainer.memory, trainer.memory_gb = Peak(lambda: 0.0), {}
    trainer.with_log_probs = []
    trainer._compute_old_log_prob = lambda batch, _: trainer.with_log_probs.append(batch)
    return trainer


@pytest.fixture(autouse=True)
def without_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log-probabilities are in verl's queue, which no test here starts."""
    difference = {"difference": 0.0, "correlation": 1.0}
    monkeypatch.setattr(trainer_module, "sampler_difference", lambda batch: difference)


def test_a_phase_shorter_than_the_interval_between_looks_has_its_memory() -> None:
    peak = Peak(lambda: 7.0, seconds=60)
    assert [peak.take(), peak.take()] == [7.0, 7.0]


class Actor:
    """Stands in for verl's workers: records the calls; metrics differ between updates."""

    def __init__(self, ranks: int) -> None:
        self._dispatch_info = {"actor": list(range(ranks))}
        self.updates: list[KVBatchMeta] = []

    def update_actor(self, batch: KVBatchMeta) -> dict[str, dict[str, list[float]]]:
        self.updates.append(batch)
        number = float(len(self.updates))
        metrics = {"grad_norm": [number], "actor/pg_clipfrac": [number / 10], "max": [number]}
        return {"metrics": metrics}


def scored(weights: list[float], lengths: list[int]) -> Scored:
    shape = (-1, N)
    none = torch.zeros(len(weights)).view(shape)
    return Scored(
        torch.tensor(lengths).view(shape), none, none, none, torch.tensor(weights).view(shape)
    )


def batch_of(rows: int) -> KVBatchMeta:
    return KVBatchMeta(
        keys=[str(row) for row in range(rows)], tags=[{}] * rows, partition_id="train"
    )


WEIGHTS = {
    "all weights non-zero": ([1] * ROWS, [-1] * ROWS),
    "odd counts": ([0, 1, 0, 0, 0, 0], [1, 0, -1, 1, 0, 0]),
    "an empty mini-batch": ([1, 0, 0, 0, -1, 0], [0] * ROWS),
    "an empty first mini-batch": ([0] * ROWS, [0, 0, 1, 1, 0, 0]),
    "an empty batch": ([0] * ROWS, [0] * ROWS),
}
LENGTHS = [5, 9, 3, 2, 8, 1, 4, 1, 7, 9, 2, 6]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_each_mini_batch_is_one_update_on_its_responses_of_non_zero_weight(
    tmp_path: Path, weights: tuple[list[float], list[float]], ranks: int
) -> None:
    trainer = trainer_of(load(tmp_path), ranks=ranks)
    trainer._updates(batch_of(len(LENGTHS)), scored([*weights[0], *weights[1]], LENGTHS), {})
    updates = trainer.actor_rollout_wg.updates
    assert len(updates) == MINI_BATCHES
    for number, (update, of_rows) in enumerate(zip(updates, weights, strict=True)):
        rows = [int(key) - number * ROWS for key in update.keys]
        assert set(rows) <= set(range(ROWS))
        non_zero = {row for row in range(ROWS) if of_rows[row]}
        assert non_zero <= set(rows)
        # Filled up with the shortest to a multiple of the ranks.
        zero = sorted(set(range(ROWS)) - non_zero, key=lambda row: LENGTHS[number * ROWS + row])
        fill = -len(non_zero) % ranks if non_zero else ranks
        assert set(rows) - non_zero == set(zero[:fill])
        assert update.extra_info["global_batch_size"] == ROWS
        assert update.extra_info["mini_batch_size"] == len(rows)
        assert update.extra_info["temperature"] == 1.0
    # Log-probabilities are computed once, for the responses of all updates.
    (with_log_probs,) = trainer.with_log_probs
    assert sorted(with_log_probs.keys) == sorted(key for update in updates for key in update.keys)


def test_a_sampler_with_other_weights_is_one_warning_at_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    differences = iter([0.001, 0.2, 0.001, 0.2])
    monkeypatch.setattr(
        trainer_module, "sampler_difference", lambda batch: {"difference": next(differences)}
    )
    monkeypatch.setattr(trainer_module, "sort_by_prompt", lambda *_: None)
    trainer, batch = trainer_of(load(tmp_path)), batch_of(len(LENGTHS))
    result = scored([1.0] * len(LENGTHS), LENGTHS)
    result = replace(result, correct=result.correct.bool())
    trainer.train_dataset = trainer._verification = trainer.progress = MagicMock()
    trainer.replay_buffer = SimpleNamespace(sample=lambda **_: (batch, None))
    trainer.scoring = SimpleNamespace(score=lambda *_: (result, 1.0))
    trainer.on_sample_end, trainer.weights_seconds = lambda: None, 0.0
    warned = []
    for trainer.global_steps in range(1, STEPS + 1):
        trainer.clock = Stopwatch()
        trainer._step_once({}, {}, len(batch))
        warned += [trainer.global_steps] * len(caplog.records)
        caplog.clear()
    assert [record["sampler"]["difference"] for record in trainer.records] == [0.001, 0.2] * 2
    assert warned == [2]


def test_a_mini_batch_of_more_prompts_than_a_step_is_one_update(tmp_path: Path) -> None:
    trainer = trainer_of(load(tmp_path, mini_batch_prompts=256))
    trainer._updates(batch_of(len(LENGTHS)), scored([1.0] * len(LENGTHS), LENGTHS), {})
    (update,) = trainer.actor_rollout_wg.updates
    assert len(update.keys) == update.extra_info["global_batch_size"] == len(LENGTHS)
    assert trainer.config.actor_rollout_ref.actor.optim.total_training_steps == STEPS


def test_ranks_get_similar_numbers_of_tokens(tmp_path: Path) -> None:
    """In each mini-batch, one rank takes the first half of the rows, the other the second."""
    trainer = trainer_of(load(tmp_path), ranks=2)
    lengths = [9, 9, 9, 1, 1, 1, 8, 8, 2, 2, 5, 5]
    trainer._updates(batch_of(12), scored([1.0] * 12, lengths), {})
    for update, half in zip(trainer.actor_rollout_wg.updates, ((11, 19), (15, 15)), strict=True):
        tokens = [lengths[int(key)] for key in update.keys]
        assert sorted((sum(tokens[:3]), sum(tokens[3:]))) == list(half)


def test_the_loggers_get_the_mean_over_a_steps_updates(tmp_path: Path) -> None:
    trainer = trainer_of(load(tmp_path))
    metrics: dict[str, Any] = {}
    updates = trainer._updates(batch_of(12), scored([1.0] * 12, LENGTHS), metrics)
    assert [update["gradient_norm"] for update in updates] == [1, 2]
    assert metrics == {
        "actor/grad_norm": 1.5,
        "actor/pg_clipfrac": pytest.approx(0.15),
        "actor/max": 2,  # verl chooses the reduction by name
    }


def test_a_gradient_that_is_not_finite_ends_the_training(tmp_path: Path) -> None:
    trainer = trainer_of(load(tmp_path))
    nan = {"metrics": {"grad_norm": [float("nan")], "actor/pg_clipfrac": [0.0]}}
    trainer.actor_rollout_wg.update_actor = lambda batch: nan
    with pytest.raises(InputError, match="the gradient is not finite at step 1"):
        trainer._update(batch_of(2), ROWS)


@pytest.fixture
def prepared(tmp_path: Path) -> Experiment:
    """An experiment with a linear schedule after a warm-up, problems and a base policy."""
    optimizer = {"schedule": "linear", "warmup_ratio": WARMUP}
    return tiny_world.load_prepared(tmp_path, **changes(optimizer=optimizer))


def with_loader(experiment: Experiment) -> Trainer:
    trainer = trainer_of(experiment)
    trainer.tokenizer = trainer.processor = None
    trainer.trainer_mode, trainer.parameter_sync_step = "sync", 1
    trainer._init_dataloader()
    return trainer


def test_the_learning_rate_follows_the_updates_not_the_steps(prepared: Experiment) -> None:
    """The logged rate is that of verl's engine, which steps its schedule once per update."""
    trainer = with_loader(prepared)
    assert trainer.total_training_steps == STEPS
    optim = trainer.config.actor_rollout_ref.actor.optim
    engine = ScheduledEngine.__new__(ScheduledEngine)
    engine.optimizer_config = omega_conf_to_dataclass(optim)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=optim.lr)
    scheduler = engine._build_lr_scheduler(optimizer)
    logged, used = [], []
    for step in range(1, STEPS + 1):
        trainer.global_steps = step
        updates = trainer._updates(batch_of(12), scored([1.0] * 12, LENGTHS), {})
        logged += [update["learning_rate"] / optim.lr for update in updates]
        for _ in updates:
            used.append(scheduler.get_last_lr()[0] / optim.lr)
            optimizer.step()
            scheduler.step()
    expected = [0, 1 / 2, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    assert logged == pytest.approx(expected)
    assert used == pytest.approx(expected)


def test_the_training_set_is_read_once(
    prepared: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """verl also creates a validation set, which is not used."""
    read: list[Path] = []

    def reading(data: Path, *more: Any) -> Any:
        read.append(data)
        return read_prompts(data, *more)

    monkeypatch.setattr(prompt_dataset, "read_prompts", reading)
    trainer = with_loader(prepared)
    assert read == [prepared.problems("train").absolute()]
    assert len(trainer.train_dataset) == STEPS * MINI_BATCH * MINI_BATCHES


def saved_by_verl(complete: bool) -> Callable[[Trainer], None]:
    """Stands in for verl's part of a checkpoint, which ends by marking it as complete."""

    def save(trainer: Trainer) -> None:
        folder = Path(trainer.config.trainer.default_local_dir)
        (folder / f"global_step_{trainer.global_steps}" / "actor").mkdir(parents=True)
        if not complete:
            raise KeyboardInterrupt
        (folder / LATEST_FILE).write_text(str(trainer.global_steps))

    return save


def test_one_checkpoint_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = load(tmp_path)
    folder = experiment.checkpoint(CELL)

    def steps() -> list[str]:
        return sorted(path.name for path in folder.glob("global_step_*"))

    monkeypatch.setattr(PPOTrainer, "_save_checkpoint", saved_by_verl(complete=True))
    for step in (1, 2):
        trainer_of(experiment, step)._save_checkpoint()  # as after a resume
        assert steps() == [f"global_step_{step}"]
    monkeypatch.setattr(PPOTrainer, "_save_checkpoint", saved_by_verl(complete=False))
    with pytest.raises(KeyboardInterrupt):
        trainer_of(experiment, 3)._save_checkpoint()
    assert steps() == ["global_step_2", "global_step_3"]
    assert (folder / LATEST_FILE).read_text() == "2"
    monkeypatch.setattr(PPOTrainer, "_save_checkpoint", saved_by_verl(complete=True))
    trainer_of(experiment, 4)._save_checkpoint()
    assert steps() == ["global_step_4"]


class Loggers:
    """Stands in for verl's loggers: records the steps and the call of `finish`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.steps: list[int] = []
        self.finished = False

    def log(self, data: dict[str, Any], step: int) -> None:
        self.steps.append(step)

    def finish(self) -> None:
        self.finished = True


class Stepping(Trainer):
    """A trainer with empty steps, in verl's own loop."""

    fails = False

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, Any]) -> KVBatchMeta:
        if self.fails:
            raise LostProcess("gone")
        return batch_of(0)

    def _compute_metrics(self, *_: Any, **__: Any) -> None:
        pass

    def _save_checkpoint(self) -> None:
        self.saved.append(self.global_steps)


class Servers:
    """Stands in for verl's manager of the servers' weights."""

    def update_weights(self, step: int) -> None:
        pass


def stepping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requested: int, every: int
) -> Stepping:
    """A trainer that gets a stop request in step `requested`."""
    trainer = trainer_of(load(tmp_path, checkpoint_every=every), step=0)
    trainer.__class__ = Stepping
    trainer.steps_per_epoch = trainer.total_training_steps = STEPS
    trainer.trainer_mode, trainer._restored_tq_prompt_count = "sync", 0
    trainer._init_dump_executor()
    trainer.saved = []
    trainer.checkpoint_manager = Servers()
    monkeypatch.setattr(trainer_base, "Tracking", Loggers)
    monkeypatch.setattr(trainer_base.tq, "kv_clear", lambda **_: None)
    monkeypatch.setattr(trainer_module, "is_requested", lambda: trainer.global_steps >= requested)
    trainer.on_init_end()
    return trainer


@pytest.mark.parametrize(("every", "saved"), [(1, [1, 2]), (2, [2]), (3, [2])])
def test_the_last_step_before_a_stop_is_saved_once_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int, saved: list[int]
) -> None:
    trainer = stepping(tmp_path, monkeypatch, requested=2, every=every)
    with pytest.raises(Stopped, match="stopped at step 2"):
        trainer.fit(None)
    assert trainer.saved == saved
    assert trainer.logger.steps == [1, 2]
    assert trainer.logger.finished


def test_a_stop_request_in_the_last_step_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = stepping(tmp_path, monkeypatch, requested=STEPS, every=3)
    trainer.fit(None)
    assert trainer.saved == [3, STEPS]
    assert trainer.logger.steps == [1, 2, 3, STEPS]
    assert trainer.logger.finished


def test_the_loggers_are_finished_when_the_training_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = stepping(tmp_path, monkeypatch, requested=STEPS, every=1)
    trainer.fails = True
    with pytest.raises(LostProcess, match="gone"):
        trainer.fit(None)
    assert trainer.logger.finished


class Requested(Exception):
    """Carries the requests to the servers."""


def names_of(rows: Iterable[dict[str, Any]], step: int) -> set[str]:
    """Names of the requests of one step, which seed a CPU server's random numbers."""
    names: set[str] = set()

    class Client:
        async def generate(self, request_id: str, **_: Any) -> TokenOutput:
            names.add(request_id)
            return TokenOutput(token_ids=[1], log_probs=[0.0])

    loop = PromptLoop(Client())
    for row in rows:
        for sample in range(N):
            asyncio.run(loop.run({}, **row, global_steps=step, session_id=sample))
    return names


def test_validation_and_training_draw_different_random_numbers(
    prepared: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = with_loader(prepared).train_dataset

    class Agents:
        def generate_sequences(self, requests: Any) -> None:
            raise Requested(requests)

    monkeypatch.setattr(held_out.transfer_queue, "kv_batch_put", lambda **_: None)
    drawn = dataset.prompts.of([0, 1, 2])
    verification = Verification(held_out.PARTITION, drawn, [], None, None)
    with pytest.raises(Requested) as caught:
        held_out.held_out_responses(Agents(), None, verification, N, step=1)
    requests = caught.value.args[0]
    held_out_rows = [
        {"raw_prompt": tokens, "name": name}
        for tokens, name in zip(requests["raw_prompt"], requests["name"], strict=True)
    ]
    training = names_of((dataset[index] for index in range(len(dataset))), step=1)
    validated = names_of(held_out_rows, step=1)
    assert (len(training), len(validated)) == (N * len(dataset), N * 3)
    assert not training & validated


def test_a_request_without_a_response_is_a_lost_process() -> None:
    """The config is correct, and the same command resumes from the last checkpoint."""
    with pytest.raises(LostProcess, match="step 3 has 11 responses instead of 12"):
        sort_by_prompt(batch_of(11), 12, "step 3")


def test_an_attribute_that_verl_does_not_read_is_one_clear_error() -> None:
    with pytest.raises(
        InputError, match=r"_wait_for_next_poll of the installed verl has no self\.p"
    ):
        require_source(ReplayBuffer._wait_for_next_poll, "self.pause")
