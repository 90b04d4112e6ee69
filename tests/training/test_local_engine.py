"""The local engine: its update against a plain statement of it, and nothing lost on a kill."""

import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rspo.config.experiment import Experiment
from rspo.config.schema import Optimizer, Training
from rspo.core.errors import InputError
from rspo.core.files import write_text
from rspo.core.tables import PROBLEMS, read_table
from rspo.datasets.prepare import prepare
from rspo.objectives import OBJECTIVES, response_weights
from rspo.policies import qwen2
from rspo.policies.qwen2 import KVCache, ModelConfig, Qwen2
from rspo.policies.sampler import sample
from rspo.rewards import verify
from rspo.training.checkpoint import save_checkpoint
from rspo.training.local import (
    Learner,
    Rollout,
    backward,
    train,
)
from rspo.training.origin import remove_checkpoints
from rspo.training.pretraining import make_base_policy
from rspo.training.progress import Progress
from rspo.training.prompts import prompts_of_step
from rspo.training.schedule import learning_rate_share
from tests.support import ROOT, judge_server, tiny_world

CELL = "small--rspo-pass--k4--n16--s0"
PROMPTS, N = 6, 8
STEPS = 40
TRAINING = tiny_world.OVERRIDES["training"] | {"steps": STEPS, "checkpoint_every": 3}


def make_model(seed: int = 0) -> Qwen2:
    model = Qwen2(ModelConfig(35, 64, 2, 2, 2, 192, max_position_embeddings=28))
    model.initialise(0.1, torch.Generator().manual_seed(seed))
    return model


def make_rollout(
    model: Qwen2, objective: str, k: int, share_right: float = 0.4, temperature: float = 1.0
) -> Rollout:
    generator = torch.Generator().manual_seed(1)
    prompts = torch.randint(2, 35, (PROMPTS, 10), generator=generator)
    responses = sample(
        model,
        prompts.tolist(),
        N,
        max_tokens=18,
        end=1,
        pad=0,
        generator=generator,
        temperature=temperature,
    )
    correct = (torch.rand(PROMPTS, N, generator=generator) < share_right).double()
    rewards = correct if OBJECTIVES[objective].binary else correct * torch.rand(PROMPTS, N).double()
    weights = response_weights(rewards, objective, k).float()
    return Rollout(prompts, responses, correct, rewards, weights)


def gradient(model: Qwen2) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).clone()


def plain_gradient(
    model: Qwen2, rollout: Rollout, part: Tensor, ppo_clip: float, temperature: float
) -> Tensor:
    """The loss as METHOD and the module's docstring state it: one response and token at a time."""
    model.zero_grad()
    loss = torch.zeros(())
    for prompt in part.tolist():
        for index in range(N):
            row = prompt * N + index
            length = int(rollout.responses.lengths[row])
            tokens = rollout.responses.tokens[row, :length]
            whole = torch.cat((rollout.prompts[prompt], tokens))[None]
            logits = model.logits(model(whole, KVCache()))[0, 9:-1]
            log_p = (logits / temperature).log_softmax(-1)
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
@pytest.mark.parametrize(("moved", "temperature"), [(False, 1.0), (True, 1.0), (False, 0.6)])
def test_the_update_is_the_stated_loss(
    objective: str, k: int, moved: bool, temperature: float
) -> None:
    """Also after the policy has moved away from the one that sampled, where clipping bites."""
    model = make_model()
    rollout = make_rollout(model, objective, k, temperature=temperature)
    if moved:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape) * 0.02)
    part = torch.tensor([1, 2, 4])
    expected = plain_gradient(model, rollout, part, 0.2, temperature)
    model.zero_grad()
    clipped = backward(model, rollout, part, 0.2, temperature)
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
        backward(model, rollout, torch.arange(PROMPTS), 0.2, drop_zeros=drop_zeros)
        gradients.append(gradient(model))
    assert (gradients[0] - gradients[1]).norm() <= 1e-6 * gradients[1].norm()


def test_a_mini_batch_with_nothing_left_still_moves_by_momentum(world: Experiment) -> None:
    """Also as the first one after a resume, when no gradient has been computed yet."""
    moved = []
    for drop_zeros in (True, False):
        learner = Learner(world, world.cell(CELL), make_model(), verify)
        for state in learner.optimizer.param_groups[0]["params"]:
            learner.optimizer.state[state] = {
                "step": torch.tensor(5.0),
                "exp_avg": torch.full_like(state, 0.01),
                "exp_avg_sq": torch.full_like(state, 1e-4),
            }
        rollout = make_rollout(learner.model, "rspo_pass_at_k", 4, share_right=0.0)
        if drop_zeros:
            learner.update(0, rollout, torch.arange(PROMPTS))
        else:
            backward(learner.model, rollout, torch.arange(PROMPTS), 0.2, drop_zeros=False)
            learner.optimizer.param_groups[0]["lr"] = learner.peak_rate
            learner.optimizer.step()
        moved.append(torch.cat([p.detach().flatten() for p in learner.model.parameters()]))
    start = torch.cat([p.detach().flatten() for p in make_model().parameters()])
    assert (moved[0] - start).norm() > 0
    torch.testing.assert_close(moved[0], moved[1])


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
        "validation": {"every": None, "problems": 1, "samples": 1},
    }
    return Training.model_validate(values | changes)


def test_learning_rate_warms_up_and_decays_to_zero() -> None:
    shares = [
        learning_rate_share(done, training().optimizer) for done in (0.0, 0.05, 0.1, 0.55, 1.0)
    ]
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
    root = tmp_path_factory.mktemp("world")
    experiment = tiny_world.load(root, training=TRAINING)
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
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
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
    """SIGKILL of a real process, three times; then the same command to the end."""
    experiment = elsewhere(world, tmp_path / "results")
    draw = random.Random(attempt)
    for _ in range(3):
        process = start(experiment)
        wait_for_progress(experiment, process)
        for _ in range(draw.randrange(4)):  # of the 13 checkpoints that a whole run writes
            wait_for_a_new_checkpoint(experiment, process)
        time.sleep(draw.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not experiment.policy(CELL).exists()
    assert (experiment.checkpoint(CELL) / "state.pt").exists()
    assert start(experiment).wait() == 0
    assert weights_of(experiment) == weights_of(undisturbed)
    assert lasting(experiment) == lasting(undisturbed)
    names = {
        path.name.removesuffix(".provenance.json") for path in experiment.folder(CELL).iterdir()
    }
    assert names == {".lock", "policy", "training.jsonl"}


def test_a_base_model_killed_in_the_middle_ends_in_the_same_file(
    world: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def report(self: Progress, step: int, metrics: object) -> None:
        steps.append(step)
        if len(steps) == 25:
            raise Killed

    steps: list[int] = []
    monkeypatch.setattr("rspo.training.pretraining.CHECKPOINT_EVERY", 10)
    monkeypatch.setattr(Progress, "report", report)
    experiment = dataclasses.replace(world, results=tmp_path / "results")
    with pytest.raises(Killed):
        make_base_policy(experiment, "small")
    make_base_policy(experiment, "small")
    assert steps == [*range(1, 26), *range(21, 41)]
    name = "model.safetensors"
    there, here = (e.policy("small--base") / name for e in (world, experiment))
    assert there.read_bytes() == here.read_bytes()


def test_two_processes_cannot_train_the_same_cell(world: Experiment, tmp_path: Path) -> None:
    experiment = elsewhere(world, tmp_path / "results")
    process = start(experiment)
    wait_for_progress(experiment, process)
    with pytest.raises(InputError, match=f"process {process.pid} on .* is at work here"):
        train(experiment, CELL)
    process.kill()
    process.wait()
    train(experiment, CELL)


def start(experiment: Experiment) -> subprocess.Popen[bytes]:
    """`rspo train` in a process of its own, on this experiment's folders."""
    code = (
        "import sys, dataclasses, pathlib, torch; torch.set_num_threads(1);"
        "from tests import tiny_world; from rspo.training.local import train;"
        f"world = tiny_world.load(pathlib.Path(sys.argv[1]), training={TRAINING!r});"
        f"train(dataclasses.replace(world, results=pathlib.Path(sys.argv[2])), {CELL!r})"
    )
    root = experiment.reports.parent
    return subprocess.Popen(
        [sys.executable, "-c", code, str(root), str(experiment.results)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def wait_for_progress(experiment: Experiment, process: subprocess.Popen[bytes]) -> None:
    """Until this very process has taken the cell; imports take seconds before that."""
    lock = experiment.folder(CELL) / ".lock"
    deadline = time.monotonic() + 120
    while not (lock.exists() and f"process {process.pid} " in lock.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def wait_for_a_new_checkpoint(experiment: Experiment, process: subprocess.Popen[bytes]) -> None:
    def version() -> int:
        state = experiment.checkpoint(CELL) / "state.pt"
        return state.stat().st_ino if state.exists() else 0

    before, deadline = version(), time.monotonic() + 120
    while version() == before:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.parametrize("changed", ["temperature", "base"])
def test_a_checkpoint_of_other_settings_or_another_base_is_not_used(
    world: Experiment,
    undisturbed: Experiment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    changed: str,
) -> None:
    experiment = elsewhere(world, tmp_path / "results")
    other = experiment
    if changed == "temperature":
        settings = tiny_world.load(
            world.reports.parent, training=TRAINING, sampling={"temperature": 0.5}
        )
        other = dataclasses.replace(settings, results=experiment.results)
    else:
        base = experiment.policy("small--base")
        base.parent.unlink()  # it was a link to the world's
        shutil.copytree(world.policy("small--base"), base)
        model = qwen2.load(base)
        with torch.no_grad():
            model.final_norm.mul_(1.01)
        qwen2.save(model, base, {"eos_token_id": 1, "pad_token_id": 0})
    interrupt_after_a_checkpoint(other)
    if changed == "base":
        shutil.rmtree(base)
        shutil.copytree(world.policy("small--base"), base)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rspo.training.local.remove_checkpoints", lambda _: None)
        train(experiment, CELL)
    assert weights_of(experiment) == weights_of(undisturbed)
    aside = experiment.folder(CELL) / "checkpoint-of-other-settings"
    assert f"kept as {aside.name}, starting anew" in capsys.readouterr().out
    assert (aside / "state.pt").exists()
    remove_checkpoints(experiment.checkpoint(CELL))
    assert not aside.exists()
    assert not experiment.checkpoint(CELL).exists()


def test_a_setting_that_is_changed_back_goes_on_from_its_checkpoint(
    world: Experiment,
    undisturbed: Experiment,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    experiment = elsewhere(world, tmp_path / "results")
    settings = tiny_world.load(
        world.reports.parent, training=TRAINING, sampling={"temperature": 0.5}
    )
    interrupt_after_a_checkpoint(experiment)
    interrupt_after_a_checkpoint(dataclasses.replace(settings, results=experiment.results))
    capsys.readouterr()
    train(experiment, CELL)
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(
        "the checkpoint of these settings is back from checkpoint-of-other-settings"
    )
    assert second == f"{CELL} goes on from step 3 of {STEPS}"
    assert weights_of(experiment) == weights_of(undisturbed)


def interrupt_after_a_checkpoint(experiment: Experiment) -> None:
    """Leave what a kill right after the first checkpoint leaves."""

    class Killed(BaseException):
        pass

    def save(*arguments: object) -> None:
        save_checkpoint(*arguments)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rspo.training.local.save_checkpoint", save)
        with pytest.raises(Killed):
            train(experiment, CELL)
    assert (experiment.checkpoint(CELL) / "state.pt").exists()


def test_snakemakes_timestamp_of_the_base_is_not_copied(world: Experiment, tmp_path: Path) -> None:
    """It would make the new policy folder look as old as the base."""
    experiment = elsewhere(world, tmp_path / "results")
    stamp = experiment.policy("small--base") / ".snakemake_timestamp"
    stamp.touch()
    train(experiment, CELL)
    stamp.unlink()
    assert not (experiment.policy(CELL) / ".snakemake_timestamp").exists()


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


def test_a_judge_model_may_be_the_verifier(world: Experiment, tmp_path: Path) -> None:
    """Rewards are its verdicts, and a second training with the same samples asks nothing."""
    settings = {
        "prompt": {"repository": "upstream", "commit": "0" * 40},
        "model": "test/judge",
        "start_seconds": 1,
        "concurrent_requests": 8,
        "request_seconds": 10,
        "retry_seconds": 10,
    }
    training = TRAINING | {"steps": 2}
    elsewhere(world, tmp_path / "results" / "tiny")
    with judge_server.running(lambda prompt: judge_server.reply("correct")) as judge:
        experiment = tiny_world.load(
            tmp_path, training=training, verifier="xverify", xverify=settings | {"url": judge.url}
        )
        write_text(experiment.judge_prompt, "PROMPT = 'Q {question} | O {output} | A {answer}'")
        for _ in range(2):
            train(experiment, CELL)
            shutil.rmtree(experiment.policy(CELL))
            assert [record["correct"] for record in lasting(experiment)] == [1.0, 1.0]
            assert len(set(judge.prompts)) == len(judge.prompts) > 0
    questions = {
        row["prompt"][0]["content"] for row in read_table(world.problems("train"), PROBLEMS)
    }
    assert {prompt[2:].split(" | O ")[0] for prompt in judge.prompts} <= questions
