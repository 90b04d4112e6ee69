"""verl's trainer and actor, without Ray, train the same policy as the local engine.

Half a minute, and one and a half with two ranks. `test_engine.py` trains with Ray and with verl's
own queue, agent loops and servers.
"""

import json
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from rspo.config.experiment import base_name
from rspo.core.errors import InputError, LostProcess
from rspo.policies.tokenizer import save_tokenizer
from rspo.training.logs import steps_above
from rspo.training.progress import read_progress
from rspo.training.verl import batches
from rspo.training.verl import trainer as module
from rspo.training.verl.batches import kept_rows, sampler_difference, sort_by_prompt
from rspo.training.verl.checkpoints import CHECKPOINT_BYTES_PER_PARAMETER, LATEST_FILE
from rspo.training.verl.trainer import RSPOTrainer
from rspo.training.verl.verl_config import verl_config
from rspo.training.verl.worker import _is_mixture_of_experts, sampling_dtype_of
from tests.support import tiny_world
from tests.support.cpu_ranks import cpu_ranks

STEPS, PROMPTS, N = 4, 10, 16
HALF = PROMPTS // 2
PROMPTS_OF_UPDATE = {"sum": HALF, "token-mean": HALF, "one update": PROMPTS, "bonus": HALF}
TOLERANCE = 1e-4  # of the norm of all updates; measured: 4e-6


@pytest.fixture(
    scope="module", params=[1, pytest.param(2, marks=pytest.mark.ci)], ids=["1 rank", "2 ranks"]
)
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, Path]:
    """The number of ranks, and the folder of tests/support/verl_training.py."""
    folder, ranks = tmp_path_factory.mktemp("ranks"), request.param
    arguments = ("tests.support.verl_training", str(folder))
    with cpu_ranks(ranks, *arguments, stdout=subprocess.PIPE) as processes:
        outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * ranks, outputs[0][-3000:]
    (folder / "log").write_text(outputs[0])
    return ranks, folder


@pytest.fixture(params=PROMPTS_OF_UPDATE)
def case(request: pytest.FixtureRequest) -> str:
    """`sum` also stops after step 3 and resumes; `token-mean` is the other loss aggregation.

    `bonus` has this too, an entropy bonus, and a k that changes.
    """
    return str(request.param)


@pytest.fixture
def result(trained: tuple[int, Path], case: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((trained[1] / f"{case}.json").read_text())
    return values


def parts(rows: list[dict[str, Any]], size: int) -> list[list[dict[str, Any]]]:
    return [rows[first : first + size] for first in range(0, len(rows), size)]


def test_the_policy_is_that_of_the_local_engine(result: dict[str, Any]) -> None:
    """With several forward passes per update, and with a mini-batch and a step without a weight."""
    assert result["distance"] < TOLERANCE
    assert result["timeout"] == 500  # of the config, for which ranks wait for each other


def test_the_records_are_those_of_the_local_engine(result: dict[str, Any]) -> None:
    """Steps, rewards, lengths, rates and validation; gradients and entropy are estimates."""
    assert len(result["records"]) == len(result["expected"]) == STEPS
    tolerances = {"entropy": 0.15, "gradient_norm": TOLERANCE, "clipped": 1}
    for step, (ours, theirs) in enumerate(zip(result["records"], result["expected"], strict=True)):
        assert ours.keys() == {*theirs, "sampler", "memory_gb", "mfu"}
        assert 0 < ours["mfu"] < 1
        for key in theirs.keys() - {"seconds", "tokens_per_second"}:
            assert ours[key] == pytest.approx(theirs[key], rel=tolerances.get(key, 1e-6)), key
        assert ours["sampler"]["difference"] < 1e-4
        phases = {"weights", "sample", "reward", "update"}
        assert ours["memory_gb"].keys() == (phases | {"checkpoint"} if step else phases)
        assert min(ours["memory_gb"].values()) > 0
    assert ["validation" in record for record in result["records"]] == [False, True, False, True]


def test_a_sampler_with_weights_of_one_step_ago_is_reported_once(trained: tuple[int, Path]) -> None:
    """It gets new weights after steps 2 and 4 only."""
    records = json.loads((trained[1] / "late.json").read_text())["records"]
    assert steps_above(records) == [2, 4], [record["sampler"] for record in records]
    warning = "The log-probabilities of the sampler and the actor differ by more than"
    log = (trained[1] / "log").read_text()
    assert log.count(warning) == 1
    assert "Logging error" not in log


def test_verls_metrics_get_the_reward_on_the_last_token_and_the_advantage_on_all(
    result: dict[str, Any], case: str
) -> None:
    assert {"actor/entropy", "actor/grad_norm", "actor/pg_loss"} <= {*result["metrics"]}
    assert {"training/reward", "seconds/sample", "sampler/difference"} <= {*result["metrics"]}
    assert all("/" in name for name in result["metrics"])
    assert len(result["responses"]) == STEPS * PROMPTS * N
    steps = parts(result["responses"], PROMPTS * N)
    for responses, record in zip(steps, result["records"], strict=True):
        rewards = [response["rm_scores"][-1] for response in responses]
        assert sum(rewards) / len(rewards) == pytest.approx(record["reward"])
        for response, reward in zip(responses, rewards, strict=True):
            assert not any(response["rm_scores"][:-1])
            assert len(set(response["advantages"])) == 1
            assert response["returns"] == response["advantages"]
            if case != "one update":  # Max@k's weights can be negative
                assert (response["advantages"][0] > 0) == (reward > 0)


def test_without_a_logger_of_verl_no_column_is_written_for_its_metrics(
    trained: tuple[int, Path],
) -> None:
    columns = json.loads((trained[1] / "late.json").read_text())["columns"]
    assert {"advantages", "old_log_probs", "rollout_log_probs"} <= {*columns}
    assert not {"returns", "rm_scores"} & {*columns}


@pytest.mark.parametrize("logger", [[], ["console"]])
def test_verl_computes_its_metrics_only_for_a_logger(
    monkeypatch: pytest.MonkeyPatch, logger: list[str]
) -> None:
    """It would fetch seven columns of all responses."""
    computed: list[str] = []
    metrics = lambda self, *_, **__: computed.append("metrics")  # noqa: E731
    monkeypatch.setattr(PPOTrainerSync, "_compute_metrics", metrics)
    trainer = RSPOTrainer.__new__(RSPOTrainer)
    trainer.config = OmegaConf.create({"trainer": {"logger": logger}})
    trainer._compute_metrics(None, {}, {}, global_steps=1, epoch=0)
    assert len(computed) == len(logger)


def test_a_step_starts_no_process(result: dict[str, Any]) -> None:
    """Not to read the memory in use either; the verifier's workers live until the end."""
    assert result["processes"] == []


def test_weights_are_cast_before_they_are_gathered(result: dict[str, Any]) -> None:
    """Half the bytes, and the numbers that a server would get by casting what it receives."""
    assert result["cast"] == {
        "of config": "torch.float32",
        "gathered": ["torch.bfloat16"],
        "as a server would cast": True,
        "of checkpoints": ["torch.float32"],
    }


def test_the_ranks_cast_to_the_type_of_the_servers(tmp_path: Path) -> None:
    experiment = tiny_world.load(tmp_path, engine="verl", verl={"device": "cuda", "ranks": 1})
    config = verl_config(experiment, next(iter(experiment.cells)))
    rollout = config.actor_rollout_ref.rollout
    assert sampling_dtype_of(rollout) == torch.bfloat16
    assert sampling_dtype_of(OmegaConf.merge(rollout, {"dtype": "half"})) == torch.float16
    assert sampling_dtype_of(OmegaConf.merge(rollout, {"dtype": "auto"})) is None
    assert sampling_dtype_of(OmegaConf.merge(rollout, {"quantization": "fp8"})) is None


@pytest.mark.parametrize("key", ["num_experts", "num_local_experts", "n_routed_experts"])
def test_what_chooses_experts_is_not_cast(key: str) -> None:
    assert _is_mixture_of_experts(SimpleNamespace(**{key: 8}))
    assert not _is_mixture_of_experts(SimpleNamespace(hidden_size=8))


def test_the_utilization_counts_the_tokens_that_were_not_dropped() -> None:
    """8 operations per parameter and token: 2 for the log-probability, 6 for the update."""
    trainer = RSPOTrainer.__new__(RSPOTrainer)
    trainer.parameters, trainer.peak, trainer.ranks, trainer.remaining = 1000, 1e6, 2, [0, 2]
    tags = [{"seq_len": length} for length in (30, 500, 70)]
    batch = KVBatchMeta(keys=["a_0_0", "a_1_0", "a_2_0"], tags=tags, partition_id="train")
    assert trainer._utilization(batch, 4.0) == pytest.approx(8 * 1000 * 100 / (4 * 2 * 1e6))
    trainer.peak = None
    assert trainer._utilization(batch, 4.0) is None


def test_each_mini_batch_is_updated_on_its_responses_of_non_zero_weight(
    result: dict[str, Any], case: str, trained: tuple[int, Path]
) -> None:
    """And on as many others as the ranks need to have the same number, at least one each."""
    ranks, _ = trained
    for responses in parts(result["responses"], PROMPTS_OF_UPDATE[case] * N):
        updated = [response for response in responses if response["updated"]]
        non_zero = [response for response in responses if response["advantages"][0]]
        assert all(response["updated"] for response in non_zero)
        expected = max(ranks, len(non_zero) + -len(non_zero) % ranks)
        nothing_is_dropped = case in ("token-mean", "bonus")
        assert len(updated) == (len(responses) if nothing_is_dropped else expected)


@pytest.fixture
def with_checkpoints(trained: tuple[int, Path]) -> Path:
    """The folder of the trainings that write checkpoints."""
    ranks, folder = trained
    if ranks > 1:
        pytest.skip("writes no checkpoint")
    return folder


def test_a_requested_stop_saves_the_step_from_which_the_same_command_resumes(
    with_checkpoints: Path,
) -> None:
    """Checkpoints are due after steps 2 and 4; a request in the last step is ignored."""
    folder = with_checkpoints
    found = {case: json.loads((folder / f"{case}.json").read_text()) for case in PROMPTS_OF_UPDATE}
    assert ["step 3" in line for line in found["sum"]["stopped"]] == [True]
    assert [len(found[case]["stopped"]) for case in PROMPTS_OF_UPDATE] == [1, 0, 0, 0]


def test_one_checkpoint_is_kept_and_its_size_is_that_of_the_docs(with_checkpoints: Path) -> None:
    """Apart from metadata and the tokenizer, which are small even for a tiny model."""
    for latest in (notes := list(with_checkpoints.rglob(LATEST_FILE))):
        (checkpoint,) = latest.parent.glob("global_step_*")
        assert checkpoint.name == f"global_step_{STEPS}"
        shards = torch.load(next(checkpoint.rglob("model_world_size_1_*.pt")), weights_only=False)
        parameters = sum(shard.numel() for shard in shards.values())
        measured = sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file())
        assert 1 <= measured / (CHECKPOINT_BYTES_PER_PARAMETER * parameters) < 1.1
    assert len(notes) == len(PROMPTS_OF_UPDATE) + 1  # of the case `late`


def test_the_correlation_with_a_constant_sampler_is_undefined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actor, sampler = torch.tensor([-1.0, -2, -3]), torch.tensor([-2.0, -2, -2])
    columns = {"old_log_probs": actor, "rollout_log_probs": sampler}
    rows = {
        name: torch.nested.as_nested_tensor([column], layout=torch.jagged)
        for name, column in columns.items()
    }
    monkeypatch.setattr(batches, "fields", lambda batch, *names: rows)
    batch = KVBatchMeta(keys=["a_0_0"], tags=[{}], partition_id="train")
    assert sampler_difference(batch) == {"difference": pytest.approx(2 / 3)}


@pytest.mark.parametrize(
    ("advantages", "lengths", "ranks", "kept"),
    [
        ([0, 2, 0, -1], [5, 5, 5, 5], 1, [1, 3]),
        ([1, 0, 0, 0, 1, 1], [5, 9, 2, 4, 5, 5], 2, [0, 2, 4, 5]),  # the shortest fills up
        ([0, 0, 0, 0, 0, 0], [3, 1, 2, 9, 9, 9], 2, [1, 2]),  # one row for every rank
        ([1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1], 3, [0, 1, 2, 3, 4, 5]),
        ([1, 0, 0, 0, 1, 1, 1, 0, 0], [5, 3, 1, 2, 5, 5, 5, 4, 9], 3, [0, 2, 3, 4, 5, 6]),
    ],
)
def test_responses_of_weight_0_are_dropped(
    advantages: list[float], lengths: list[int], ranks: int, kept: list[int]
) -> None:
    weights, tokens = torch.tensor(advantages), torch.tensor(lengths)
    assert kept_rows(weights, tokens, ranks) == kept


def test_ranks_get_similar_numbers_of_tokens() -> None:
    trainer, lengths = RSPOTrainer.__new__(RSPOTrainer), torch.tensor([9, 9, 9, 1, 1, 1, 7, 7])
    trainer.ranks = 2
    rows = trainer._balanced([0, 1, 2, 3, 4, 5], lengths)
    assert sorted(rows) == [0, 1, 2, 3, 4, 5]
    assert sorted(int(lengths[part].sum()) for part in (rows[:3], rows[3:])) == [11, 19]


def test_memory_is_recorded_in_gigabytes_with_two_decimals() -> None:
    trainer = RSPOTrainer.__new__(RSPOTrainer)
    trainer.memory, trainer.memory_gb = SimpleNamespace(take=lambda: 3_141_592_653), {}
    trainer._note_memory("sample")
    assert trainer.memory_gb == {"sample": 3.14}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_phase_has_the_highest_memory_of_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    """Memory that was in use for a while, and is free when the phase ends, counts."""
    experiment = tiny_world.load(tmp_path, engine="verl", verl={"device": device, "ranks": 1})
    cell = next(iter(experiment.cells.values()))
    base = experiment.files.policy(base_name(cell.model))
    save_tokenizer(base, prompt_tokens=10, context=28)

    def init(trainer: RSPOTrainer, config: Any) -> None:
        trainer.replay_buffer = SimpleNamespace()

    used = [1]
    monkeypatch.setattr(PPOTrainerSync, "__init__", init)
    if device == "cuda":
        monkeypatch.setattr(module, "gpu_name", lambda: "NVIDIA H800")
        monkeypatch.setattr(module, "gpu_bytes", lambda which: {"used": used[0]}[which])
    else:
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(used=used[0]))
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_READINGS", 0.01)
    trainer = RSPOTrainer(verl_config(experiment, cell.name), lambda *_: [])
    with trainer.memory:
        used[0] = 2_000_000_000
        end = time.monotonic() + 20  # seconds, of which the next reading needs a fraction
        while trainer.memory.highest != used[0] and time.monotonic() < end:
            time.sleep(0.01)
        used[0] = 1
        trainer._note_memory("update")
    assert trainer.memory_gb == {"update": 2.0}
    assert trainer.peak == (989e12 if device == "cuda" else None)


def test_progress_begins_at_the_step_of_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = RSPOTrainer.__new__(RSPOTrainer)
    trainer.experiment = tiny_world.load(tmp_path, engine="verl")
    trainer.cell = next(iter(trainer.experiment.cells.values()))
    trainer.training = trainer.experiment.config.training
    trainer.config = verl_config(trainer.experiment, trainer.cell.name)
    trainer.global_steps = 4
    monkeypatch.setattr(PPOTrainerSync, "_load_checkpoint", lambda self: None)
    trainer._records_file.parent.mkdir(parents=True)
    trainer._records_file.write_text(json.dumps([{"step": 4}]))
    trainer._load_checkpoint()
    progress = read_progress(trainer.experiment.files.checkpoint(trainer.cell.name))
    assert progress is not None
    assert (progress.step, progress.steps) == (4, 6)
    assert trainer.run_log.records == [{"step": 4}]


@pytest.mark.parametrize(("step", "saves"), [(2, 0), (3, 1), (4, 0)])
def test_a_stop_saves_a_step_only_if_verl_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, saves: int
) -> None:
    """Checkpoints are due every two steps."""
    trainer = RSPOTrainer.__new__(RSPOTrainer)
    trainer.training = tiny_world.load(tmp_path, engine="verl").config.training
    trainer.global_steps = step
    saved: list[int] = []
    monkeypatch.setattr(module, "is_requested", lambda: True)
    monkeypatch.setattr(RSPOTrainer, "_save_checkpoint", lambda self: saved.append(step))
    trainer.on_step_end()
    assert trainer.stopping
    assert saved == [step] * saves


def test_a_gradient_that_is_not_finite_ends_the_training(tmp_path: Path) -> None:
    trainer = RSPOTrainer.__new__(RSPOTrainer)
    trainer.experiment = tiny_world.load(tmp_path, engine="verl")
    (trainer.cell, *_), trainer.global_steps = trainer.experiment.cells.values(), 1
    trainer.config = verl_config(trainer.experiment, trainer.cell.name)
    infinite = {"metrics": {"grad_norm": [float("inf")]}}
    trainer.actor_rollout_wg = SimpleNamespace(update_actor=lambda batch: infinite)
    batch = KVBatchMeta(keys=["a_0_0"], tags=[{}], partition_id="train")
    with pytest.raises(InputError, match="the gradient is not finite at step 1"):
        trainer._update(batch, 1)


def test_a_request_without_a_response_is_a_lost_process() -> None:
    """The config is correct, and the same command resumes from the last checkpoint."""
    keys = [f"a_{sample}_0" for sample in range(11)]
    batch = KVBatchMeta(keys=keys, tags=[{}] * 11, partition_id="train")
    with pytest.raises(LostProcess, match="step 3 has 11 responses instead of 12"):
        sort_by_prompt(batch, 12, "step 3")
