"""The local engine with a published model: its gradient, its devices, and interrupted cells."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from rspo.config.experiment import Experiment
from rspo.config.names import REASONING_GYM
from rspo.core.errors import InputError
from rspo.datasets import reasoning_gym
from rspo.objectives import response_weights
from rspo.pipeline import tasks
from rspo.pipeline.provenance import read_provenance
from rspo.policies import qwen2
from rspo.policies.qwen2 import padded_on_the_left, to_hub
from rspo.policies.sampler import sample
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards import verify
from rspo.training.local import Rollout, Trainer, backward
from rspo.training.pretraining import make_base_policy
from rspo.training.progress import Progress
from rspo.training.prompts import read_prompts
from rspo.training.train import train
from tests.support import ROOT, gym_draws, published_world, tiny_world
from tests.support.published_world import CELL

PROMPTS = [[5, 6, 7, 8], [9] * 17, [30, 31], [40, 41, 42]]
N = 6
T = 12


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return published_world.load_prepared(tmp_path_factory.mktemp("world"))


def test_the_gradient_is_that_of_transformers_and_a_plain_loss(world: Experiment) -> None:
    """Of a batch with prompts of different lengths, after an update of the policy that sampled."""
    folder = world.files.policy("llama--base")
    tokenizer = ChatTokenizer(folder)
    model = qwen2.load(folder)
    generator = torch.Generator().manual_seed(0)
    ends = tokenizer.ends
    drawn = sample(
        model, PROMPTS, N, max_tokens=T, end=ends, pad=tokenizer.pad, generator=generator
    )
    correct = torch.rand(len(PROMPTS), N, generator=generator) < 0.4
    weights = response_weights(correct.double(), "rspo_pass_at_k", 3).float()
    for parameter in model.parameters():
        with torch.no_grad():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.005)
        parameter.grad = torch.zeros_like(parameter)
    tokens, padding = padded_on_the_left(PROMPTS, tokenizer.pad, model.device)
    assert padding is not None
    rollout = Rollout(tokens, drawn, weights, padding=padding)
    clipped = backward(model, rollout, torch.arange(len(PROMPTS)), T, 0.2, 1.0)
    assert 0 < clipped < 1

    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    theirs.load_state_dict(to_hub(model), strict=False)
    theirs.tie_weights()
    loss = torch.zeros(())
    for row, length in enumerate(drawn.lengths.tolist()):
        prompt = PROMPTS[row // N]
        response = drawn.tokens[row, :length]
        sequence = torch.cat((torch.tensor(prompt), response))[None]
        log_p = theirs(input_ids=sequence).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        ratio = torch.exp(log_p[range(length), response.tolist()] - drawn.log_probs[row, :length])
        weight = weights.flatten()[row]
        objective = torch.min(weight * ratio, weight * ratio.clamp(0.8, 1.2))
        loss = loss - objective.sum() / (len(PROMPTS) * T)
    loss.backward()
    expected = {name: one.grad for name, one in theirs.named_parameters()}
    for name, found in gradients_of(model).items():
        difference = (found - expected[name]).norm()
        assert difference <= 1e-4 * expected[name].norm() + 1e-7, name


def gradients_of(model: qwen2.Qwen2) -> dict[str, torch.Tensor]:
    """The gradients of a model, by the names of transformers."""
    with_gradients = qwen2.Qwen2(model.config)
    with torch.no_grad():
        for target, source in zip(with_gradients.parameters(), model.parameters(), strict=True):
            assert source.grad is not None
            target.copy_(source.grad)
    return to_hub(with_gradients)


def test_bfloat16_keeps_parameters_and_gradients_in_float32(world: Experiment) -> None:
    """An update that bfloat16 would round away changes the parameters."""
    config = world.config.model_copy(
        update={"local": world.config.local.model_copy(update={"dtype": "bfloat16"})}
    )
    folder = world.files.policy("llama--base")
    tokenizer = ChatTokenizer(folder)
    model = qwen2.load(folder)
    before = {name: one.detach().clone() for name, one in model.named_parameters()}
    model.compute_dtype = torch.bfloat16
    trainer = Trainer(config, world.cell(CELL), model, tokenizer, verify)
    trainer.rate = 1e-6
    prompts, _ = read_prompts(world.files.problems("train"), tokenizer, config.sampling)
    batch = prompts.select(list(range(4)))
    drawn = trainer.sample(batch.tokens, trainer.cell.n, "test")
    weights = torch.tensor(np.random.default_rng(0).normal(size=(4, trainer.cell.n))).float()
    trainer.update(1, trainer.rollout(batch, drawn, weights), torch.arange(4))
    for name, parameter in model.named_parameters():
        assert parameter.dtype == parameter.grad.dtype == torch.float32
        changed = (parameter - before[name]).abs().max().item()
        assert 0 < changed < 2e-6, name


@contextmanager
def meta_by_default() -> Iterator[None]:
    """Tensors that are created without a device have no values, so computing with them fails."""
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


def test_every_tensor_of_a_step_is_created_on_the_device_of_the_model(world: Experiment) -> None:
    """The model's device is not PyTorch's default, as for a model on a GPU."""
    folder = world.files.policy("llama--base")
    tokenizer = ChatTokenizer(folder)
    config = world.config
    trainer = Trainer(config, world.cell(CELL), qwen2.load(folder), tokenizer, verify)
    prompts, _ = read_prompts(world.files.problems("train"), tokenizer, config.sampling)
    batch = prompts.select(list(range(4)))
    weights = torch.tensor(np.random.default_rng(0).normal(size=(4, trainer.cell.n))).float()
    rows = torch.arange(4)
    expected = trainer.sample(batch.tokens, trainer.cell.n, "test")
    with meta_by_default():
        drawn = trainer.sample(batch.tokens, trainer.cell.n, "test")
        rollout = trainer.rollout(batch, drawn, weights)
        record = trainer.update(1, rollout, rows)
    lengths = [len(tokens) for tokens in batch.tokens]
    assert rollout.padding is not None
    assert len(set(lengths)) > 1
    assert rollout.padding.tolist() == [max(lengths) - length for length in lengths]
    assert 0 < expected.finished.sum() < len(expected.finished)
    for name, tensor in vars(drawn).items():
        assert torch.equal(tensor, getattr(expected, name)), name
    assert record["gradient_norm"] > 0


def test_a_model_that_the_engine_cannot_train_is_refused_before_the_first_cell(
    tmp_path: Path,
) -> None:
    experiment = published_world.load(tmp_path)
    config = tmp_path / "mirror" / "test" / "llama" / "config.json"
    config.write_text(config.read_text().replace('"silu"', '"gelu"'))
    with pytest.raises(
        InputError, match=r"^test/llama/config.json: hidden_act = 'gelu'; allowed by the local"
    ):
        make_base_policy(experiment, "llama", tmp_path / "mirror")
    assert not experiment.files.policy("llama--base").exists()


def test_a_cell_interrupted_after_a_checkpoint_ends_in_the_same_file(
    world: Experiment, tmp_path: Path
) -> None:
    undisturbed = published_world.elsewhere(world, tmp_path / "undisturbed")
    train(undisturbed, CELL)
    resumed = published_world.elsewhere(world, tmp_path / "resumed")
    published_world.interrupt_after_a_checkpoint(resumed)
    train(resumed, CELL)
    first, second = (one.files.policy(CELL) for one in (undisturbed, resumed))
    name = "model.safetensors"
    assert (first / name).read_bytes() == (second / name).read_bytes()
    base = world.files.policy("llama--base")
    assert (first / name).read_bytes() != (base / name).read_bytes()
    for file in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        assert (first / file).read_bytes() == (base / file).read_bytes()


@pytest.mark.ci
def test_a_cell_killed_by_a_signal_ends_in_the_same_file(world: Experiment, tmp_path: Path) -> None:
    """SIGKILL another process after a checkpoint, then run the same command to its end."""
    weights = []
    for name in ("undisturbed", "killed"):
        experiment = published_world.elsewhere(world, tmp_path / name)
        words = ["train", CELL, "--scale=published", "--set=training.steps=30"]
        words.append(f"--results={experiment.files.results}")
        command = [sys.executable, "-m", "rspo", *words]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        if name == "killed":
            process = subprocess.Popen(command, cwd=world.root, env=environment)
            state = experiment.files.checkpoint(CELL) / "state.pt"
            deadline = time.monotonic() + 300
            while not state.exists():
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.kill()
            assert process.wait() == -signal.SIGKILL
            assert not experiment.files.policy(CELL).exists()
        subprocess.run(command, cwd=world.root, env=environment, check=True)
        weights.append((experiment.files.policy(CELL) / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


START = {
    "tasks": ["sums_2", "gcd"],
    "problems": 40,
    "epochs": 3,
    "batch": 8,
    "learning_rate": 1e-2,
    "seed": 0,
}


def started(root: Path, **changes: object) -> Experiment:
    models = {"llama": published_world.MODEL | {"start": START | changes}}
    return published_world.load(root, models=models)


def weights_of(experiment: Experiment) -> dict[str, torch.Tensor]:
    return load_file(experiment.files.policy("llama--base") / "model.safetensors")


def test_a_start_teaches_the_answers_and_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the mean loss of transformers on the examples, before and after."""
    monkeypatch.setattr(reasoning_gym, "_drawn", gym_draws.drawn)
    experiment = started(tmp_path)
    make_base_policy(experiment, "llama", tmp_path / "mirror")
    folder = experiment.files.policy("llama--base")
    start = experiment.config.models["llama"].start
    pairs = reasoning_gym.worked_examples(experiment, start)
    tokenizer = ChatTokenizer(folder)
    losses = []
    for weights in (tmp_path / "mirror" / "test" / "llama", folder):
        theirs = AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32)
        total = 0.0
        for question, answer in pairs:
            (prompt,) = tokenizer.prompts([[{"role": "user", "content": question}]])
            (response,) = tokenizer.encode([answer])
            sequence = torch.tensor([prompt + response + [tokenizer.end]])
            targets = sequence.clone()
            targets[:, : len(prompt)] = -100
            with torch.no_grad():
                total += theirs(input_ids=sequence, labels=targets).loss.item()
        losses.append(total / len(pairs))
    assert losses[1] < losses[0] - 1
    notes = read_provenance(folder)["notes"]
    assert notes["start"]["examples"] == 80
    assert notes["start"]["updates"] == 30
    assert notes["start"]["content_sha256"] == reasoning_gym.digest_of(pairs)
    assert (notes["device"], len(notes["sources"])) == ("cpu", 1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_start_on_a_gpu_counts_its_seconds(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train_start(*arguments: object) -> dict[str, str]:
        time.sleep(0.01)
        return {"device": device}

    monkeypatch.setattr("rspo.training.pretraining.train_start", train_start)
    experiment = started(tmp_path)
    make_base_policy(experiment, "llama", tmp_path / "mirror")
    seconds = read_provenance(experiment.files.policy("llama--base"))["gpu_seconds"]
    assert (seconds > 0) == (device == "cuda")


def test_a_start_with_another_seed_is_another_policy_and_the_same_one_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasoning_gym, "_drawn", gym_draws.drawn)
    policies = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        (tmp_path / name).mkdir()
        experiment = started(tmp_path / name, seed=seed, epochs=1)
        make_base_policy(experiment, "llama", tmp_path / name / "mirror")
        policies.append(weights_of(experiment))
    first, again, other = policies
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_a_start_killed_in_the_middle_ends_in_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasoning_gym, "_drawn", gym_draws.drawn)
    monkeypatch.setattr("rspo.training.supervised.CHECKPOINT_EVERY", 4)
    (tmp_path / "undisturbed").mkdir()
    undisturbed = started(tmp_path / "undisturbed", epochs=1)
    make_base_policy(undisturbed, "llama", tmp_path / "undisturbed" / "mirror")
    (tmp_path / "killed").mkdir()
    killed = started(tmp_path / "killed", epochs=1)

    def report(self: Progress, step: int, metrics: object) -> None:
        if step == 6:
            raise published_world.Killed

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "report", report)
        with pytest.raises(published_world.Killed):
            make_base_policy(killed, "llama", tmp_path / "killed" / "mirror")
    make_base_policy(killed, "llama", tmp_path / "killed" / "mirror")
    first, second = weights_of(undisturbed), weights_of(killed)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_start_makes_no_other_base_policy_out_of_date(tmp_path: Path) -> None:
    """The settings of a model without a start are those from before the key existed."""
    plain = published_world.load(tmp_path)
    assert "start" not in tasks.pretrain(plain, "llama").settings
    (tmp_path / "started").mkdir()
    settings = tasks.pretrain(started(tmp_path / "started"), "llama").settings
    assert settings["start"] == START | {"answer_share": 0.05, "version": REASONING_GYM}


def test_a_start_of_a_model_from_scratch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="start is for a model of the hub"):
        tiny_world.load(tmp_path, models={"small": {"start": START}})
