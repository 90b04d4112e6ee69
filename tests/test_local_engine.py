"""The local engine: its update against a plain statement of it, and nothing lost on a kill."""

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rspo.config import Optimizer, Training
from rspo.datasets.prepare import prepare
from rspo.errors import InputError
from rspo.experiment import Experiment
from rspo.objectives import OBJECTIVES, response_weights
from rspo.policies import qwen2
from rspo.policies.pretraining import make_base_policy
from rspo.policies.qwen2 import Memory, Qwen2, Shape
from rspo.policies.sampler import sample
from rspo.training.local import Rollout, backward, learning_rate_share, prompts_of_step, train

from . import tiny_world

CELL = "small--rspo-pass--k4--n16--s0"
PROMPTS, N = 6, 8


def make_model(seed: int = 0) -> Qwen2:
    model = Qwen2(Shape(35, 64, 2, 2, 2, 192, context=28))
    model.initialise(0.1, torch.Generator().manual_seed(seed))
    return model


def make_rollout(model: Qwen2, objective: str, k: int, share_right: float = 0.4) -> Rollout:
    generator = torch.Generator().manual_seed(1)
    prompts = torch.randint(2, 35, (PROMPTS, 10), generator=generator)
    responses = sample(model, prompts.tolist(), N, max_tokens=18, end=1, pad=0, generator=generator)
    correct = (torch.rand(PROMPTS, N, generator=generator) < share_right).double()
    rewards = correct if OBJECTIVES[objective].binary else correct * torch.rand(PROMPTS, N).double()
    weights = response_weights(rewards, objective, k).float()
    return Rollout(prompts, responses, correct, rewards, weights)


def gradient(model: Qwen2) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).clone()


def plain_gradient(model: Qwen2, rollout: Rollout, part: Tensor, ppo_clip: float) -> Tensor:
    """The loss as METHOD and the module's docstring state it: one response and token at a time."""
    model.zero_grad()
    loss = torch.zeros(())
    for prompt in part.tolist():
        for index in range(N):
            row = prompt * N + index
            length = int(rollout.responses.lengths[row])
            tokens = rollout.responses.tokens[row, :length]
            whole = torch.cat((rollout.prompts[prompt], tokens))[None]
            log_p = model.logits(model(whole, Memory()))[0, 9:-1].log_softmax(-1)
            weight = float(rollout.weights[prompt, index])
            for position in range(length):
                old = rollout.responses.log_probs[row, position]
                ratio = torch.exp(log_p[position, tokens[position]] - old)
                clipped = torch.clamp(ratio, 1 - ppo_clip, 1 + ppo_clip)
                loss = loss - torch.min(weight * ratio, weight * clipped) / len(part)
    loss.backward()
    return gradient(model)


@pytest.mark.parametrize(
    ("objective", "k"),
    [("rspo_pass_at_k", 3), ("hitchhiking", 4), ("grpo", 1), ("rspo_max_at_k", 2)],
)
@pytest.mark.parametrize("moved", [False, True])
def test_the_update_is_the_stated_loss(objective: str, k: int, moved: bool) -> None:
    """Also after the policy has moved away from the one that sampled, where clipping bites."""
    model = make_model()
    rollout = make_rollout(model, objective, k)
    if moved:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape) * 0.02)
    part = torch.tensor([1, 2, 4])
    expected = plain_gradient(model, rollout, part, 0.2)
    model.zero_grad()
    clipped = backward(model, rollout, part, 0.2)
    assert (clipped > 0) == moved
    assert expected.norm() > 0
    assert (gradient(model) - expected).norm() <= 2e-5 * expected.norm()


@pytest.mark.parametrize("objective", ["rspo_pass_at_k", "hitchhiking", "rspo_max_at_k"])
def test_dropping_zero_weight_responses_does_not_change_the_update(objective: str) -> None:
    model = make_model()
    rollout = make_rollout(model, objective, 4)
    dropped = int((rollout.weights == 0).sum())
    assert 0 < dropped < PROMPTS * N
    gradients = []
    for drop_zeros in (True, False):
        model.zero_grad()
        backward(model, rollout, torch.arange(PROMPTS), 0.2, drop_zeros)
        gradients.append(gradient(model))
    assert (gradients[0] - gradients[1]).norm() <= 1e-6 * gradients[1].norm()


def test_a_mini_batch_with_nothing_left_adds_no_gradient() -> None:
    model = make_model()
    rollout = make_rollout(model, "rspo_pass_at_k", 4, share_right=0.0)
    model.zero_grad(set_to_none=False)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    assert backward(model, rollout, torch.arange(PROMPTS), 0.2) == 0
    assert (gradient(model) == 0).all()


def test_the_length_of_a_chunk_does_not_change_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    rollout = make_rollout(model, "hitchhiking", 4, share_right=0.9)
    gradients = []
    for chunk in (5, 1000):
        monkeypatch.setattr("rspo.training.local.CHUNK", chunk)
        model.zero_grad()
        backward(model, rollout, torch.arange(PROMPTS), 0.2)
        gradients.append(gradient(model))
    assert (gradients[0] - gradients[1]).norm() <= 1e-6 * gradients[1].norm()


def training(**changes: object) -> Training:
    optimizer = Optimizer(schedule="linear", warmup_ratio=0.1, betas=(0.9, 0.99), weight_decay=0.0)
    values: dict[str, object] = {
        "steps": 10,
        "prompts_per_step": 10,
        "mini_batch_prompts": 5,
        "optimizer": optimizer,
        "ppo_clip": 0.2,
        "checkpoint_every": 5,
    }
    return Training.model_validate(values | changes)


def test_learning_rate_warms_up_and_decays_to_zero() -> None:
    shares = [learning_rate_share(done, training()) for done in (0.0, 0.05, 0.1, 0.55, 1.0)]
    assert shares == pytest.approx([0.0, 0.5, 1.0, 0.5, 0.0])


def test_an_epoch_uses_every_prompt_at_most_once_with_families_in_turn() -> None:
    families = ["a", "b", "c", "d", "e"] * 20
    steps = [prompts_of_step(families, training(), seed=0, step=step) for step in range(10)]
    assert sorted(row for rows in steps for row in rows) == list(range(100))
    for rows in steps:
        assert sorted(families[row] for row in rows) == sorted(["a", "b", "c", "d", "e"] * 2)
    later = prompts_of_step(families, training(), seed=0, step=10)
    assert later != steps[0]  # a new order in the next epoch
    assert later == prompts_of_step(families, training(), seed=0, step=10)


def test_a_training_set_smaller_than_a_step_is_an_error() -> None:
    with pytest.raises(InputError, match=r"has 9 problems; training.prompts_per_step = 10"):
        prompts_of_step(["a"] * 9, training(), seed=0, step=0)


# --- whole cells -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment = tiny_world.load(tmp_path_factory.mktemp("world"))
    prepare(experiment, "train", None)
    make_base_policy(experiment, "small")
    return experiment


def elsewhere(world: Experiment, folder: Path) -> Experiment:
    """The same experiment with cells of its own and the same base and problems."""
    (folder / "cells").mkdir(parents=True)
    for part in ("problems", "cells/small--base"):
        (folder / part).symlink_to((world.results / part).resolve())
    return dataclasses.replace(world, results=folder)


@pytest.fixture(scope="module")
def undisturbed(world: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment = elsewhere(world, tmp_path_factory.mktemp("undisturbed") / "results")
    train(experiment, CELL)
    return experiment


def weights_of(experiment: Experiment) -> bytes:
    return (experiment.policy(CELL) / "model.safetensors").read_bytes()


def lasting(experiment: Experiment) -> list[dict[str, object]]:
    """The training log without what differs between runs: seconds and speed."""
    records = [json.loads(line) for line in experiment.training_log(CELL).open()]
    return [
        {key: value for key, value in record.items() if key not in ("seconds", "tokens_per_second")}
        for record in records
    ]


def test_the_log_has_one_line_a_step(undisturbed: Experiment) -> None:
    records = lasting(undisturbed)
    assert [record["step"] for record in records] == list(range(1, 7))
    for record in records:
        assert 0 <= record["zero_weight"] <= 1
        assert record["entropy"] > 0
        assert record["pass_at_1"] == pytest.approx(record["correct"])
        assert record["pass_at_1"] <= record["pass_at_2"] <= record["pass_at_4"]


def test_training_changes_the_policy_and_leaves_no_checkpoint(undisturbed: Experiment) -> None:
    base = undisturbed.policy("small--base") / "model.safetensors"
    assert weights_of(undisturbed) != base.read_bytes()
    assert not undisturbed.checkpoint(CELL).exists()
    qwen2.load(undisturbed.policy(CELL))


def test_the_same_cell_again_gives_the_same_file(
    world: Experiment, undisturbed: Experiment, tmp_path: Path
) -> None:
    again = elsewhere(world, tmp_path / "results")
    train(again, CELL)
    assert weights_of(again) == weights_of(undisturbed)


@pytest.mark.parametrize("attempt", range(3))
def test_a_cell_killed_at_random_moments_ends_in_the_same_file(
    world: Experiment, undisturbed: Experiment, tmp_path: Path, attempt: int
) -> None:
    """SIGKILL of a real process, several times; then the same command to the end."""
    experiment = elsewhere(world, tmp_path / "results")
    draw = random.Random(attempt)
    kills = 0
    while kills < 3:
        process = start(experiment)
        # Imports take most of a second; a step takes some 30 ms.
        wait_for_progress(experiment, process)
        time.sleep(draw.uniform(0, 0.3))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        killed = process.wait() == -signal.SIGKILL
        kills += 1
        if not killed:
            break
        assert not experiment.policy(CELL).exists() or weights_of(experiment)
    assert start(experiment).wait() == 0
    assert weights_of(experiment) == weights_of(undisturbed)
    assert lasting(experiment) == lasting(undisturbed)
    leftovers = [path.name for path in experiment.folder(CELL).iterdir()]
    assert sorted(leftovers) == ["policy", "policy.provenance.json", "training.jsonl"]


def start(experiment: Experiment) -> subprocess.Popen[bytes]:
    """`rspo train` in a process of its own, on this experiment's folders."""
    code = (
        "import sys, dataclasses, pathlib, torch; torch.set_num_threads(1);"
        "from tests import tiny_world; from rspo.training.local import train;"
        "world = tiny_world.load(pathlib.Path(sys.argv[1]));"
        f"train(dataclasses.replace(world, results=pathlib.Path(sys.argv[2])), {CELL!r})"
    )
    root = experiment.reports.parent
    return subprocess.Popen(
        [sys.executable, "-c", code, str(root), str(experiment.results)],
        cwd=tiny_world.ROOT,
        env=os.environ | {"PYTHONPATH": str(tiny_world.ROOT)},
    )


def wait_for_progress(experiment: Experiment, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if experiment.checkpoint(CELL).exists():
            return
        time.sleep(0.01)


def test_a_checkpoint_of_other_settings_is_not_used(
    world: Experiment, undisturbed: Experiment, tmp_path: Path
) -> None:
    experiment = elsewhere(world, tmp_path / "results")
    process = start(experiment)
    wait_for_progress(experiment, process)
    while process.poll() is None and not (experiment.checkpoint(CELL) / "state.pt").exists():
        time.sleep(0.01)
    process.kill()
    process.wait()
    changed = tiny_world.load(world.reports.parent, sampling={"temperature": 0.5})
    train(dataclasses.replace(changed, results=experiment.results), CELL)
    assert weights_of(experiment) != weights_of(undisturbed)
    train(experiment, CELL)
    assert weights_of(experiment) == weights_of(undisturbed)


def test_an_infinite_learning_rate_stops_with_the_step_and_the_rate(
    world: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = elsewhere(world, tmp_path / "results")

    def explode(model: Qwen2, *_: object) -> float:
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, torch.nan)
        return 0.0

    monkeypatch.setattr("rspo.training.local.backward", explode)
    with pytest.raises(InputError, match=f"{CELL}: the gradient is not finite at step 1"):
        train(experiment, CELL)
    assert not experiment.policy(CELL).exists()
