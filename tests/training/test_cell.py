"""The life of a cell with the local engine: interrupted and resumed runs train the same policy."""

import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

from rspo.config.experiment import Experiment
from rspo.config.files import Files
from rspo.core.errors import InputError
from rspo.core.files import write_text
from rspo.core.tables import PROBLEMS, read_table
from rspo.datasets.prepare import prepare
from rspo.pipeline import tasks
from rspo.pipeline.provenance import provenance_path
from rspo.pipeline.run import record
from rspo.pipeline.state import VERL_FILE, is_good
from rspo.policies import qwen2
from rspo.policies.qwen2 import Qwen2
from rspo.training.checkpoint import save_checkpoint
from rspo.training.pretraining import make_base_policy
from rspo.training.progress import Progress
from rspo.training.train import train
from rspo.training.verl.checkpoints import LATEST_FILE
from tests.support import ROOT, judge_server, tiny_world
from tests.support.processes import wait_for_lock

CELL = "small--rspo-pass--k4--n16--s0"
STEPS = 40
VALIDATION = {"every": 13, "problems": 20, "samples": 4}
TRAINING = tiny_world.OVERRIDES["training"] | {
    **{"steps": STEPS, "checkpoint_every": 3, "validation": VALIDATION}
}


class Killed(BaseException):
    """Ends a training as a kill would."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    root = tmp_path_factory.mktemp("world")
    experiment = tiny_world.load(root, training=TRAINING)
    prepare(experiment, "train")
    prepare(experiment, "validation")
    make_base_policy(experiment, "small")
    return experiment


def elsewhere(world: Experiment, folder: Path) -> Experiment:
    """The same experiment with the same base policy and problems, and its own cells."""
    (folder / "cells").mkdir(parents=True)
    for part in ("problems", "cells/small--base"):
        (folder / part).symlink_to((world.files.results / part).resolve())
    return dataclasses.replace(world, files=Files(folder, world.files.reports))


@pytest.fixture(scope="module")
def undisturbed(world: Experiment, tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment = elsewhere(world, tmp_path_factory.mktemp("undisturbed") / "results")
    train(experiment, CELL)
    return experiment


def weights_of(experiment: Experiment) -> bytes:
    return (experiment.files.policy(CELL) / "model.safetensors").read_bytes()


def without_times(experiment: Experiment) -> list[dict[str, object]]:
    """The training log without seconds and speed, which differ between runs."""
    records = [json.loads(line) for line in experiment.files.training_log(CELL).open()]
    return [
        {key: value for key, value in record.items() if key not in ("seconds", "tokens_per_second")}
        for record in records
    ]


def test_training_changes_the_policy_logs_each_step_and_leaves_no_checkpoint(
    undisturbed: Experiment,
) -> None:
    records = without_times(undisturbed)
    assert [line["step"] for line in records] == list(range(1, STEPS + 1))
    for line in records:
        assert 0 <= line["zero_weight"] <= 1
        assert line["entropy"] > 0
        assert line["pass_at_1"] == pytest.approx(line["correct"])
        assert line["pass_at_1"] <= line["pass_at_2"] <= line["pass_at_4"]
    base = undisturbed.files.policy("small--base") / "model.safetensors"
    assert weights_of(undisturbed) != base.read_bytes()
    assert not undisturbed.files.checkpoint(CELL).exists()
    qwen2.load(undisturbed.files.policy(CELL))


def test_the_same_cell_again_gives_the_same_file(
    world: Experiment, undisturbed: Experiment, tmp_path: Path
) -> None:
    """Without Snakemake's timestamp of the base: the new policy would look as old as the base."""
    again = elsewhere(world, tmp_path / "results")
    stamp = again.files.policy("small--base") / ".snakemake_timestamp"
    stamp.touch()
    train(again, CELL)
    stamp.unlink()
    assert weights_of(again) == weights_of(undisturbed)
    assert not (again.files.policy(CELL) / stamp.name).exists()


@pytest.mark.parametrize(("clip", "clipped"), [(1e-3, True), (1e3, False)])
def test_a_training_whose_gradients_were_mostly_clipped_ends_with_a_warning(
    world: Experiment, tmp_path: Path, caplog: pytest.LogCaptureFixture, clip: float, clipped: bool
) -> None:
    changes = TRAINING | {"steps": 2, "optimizer": {"gradient_clip": clip}}
    own = tiny_world.load(world.files.reports.parent, training=changes)
    experiment = elsewhere(own, tmp_path / "results")
    train(experiment, CELL)
    assert [record["gradient_clipped"] for record in without_times(experiment)] == [clipped] * 2
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    if clipped:
        (warning,) = warnings
        assert warning.startswith("training.optimizer.gradient_clip scaled the gradients of more")
        assert warning.endswith(f": {CELL} (100%).")
    else:
        assert warnings == []


def test_a_variant_with_other_lengths_trains_the_base_policy_of_the_grid(
    world: Experiment, tmp_path: Path
) -> None:
    cells = [{"model": "small", "objective": "rspo_pass_at_k", "k": 4, "n": 16, "variant": "short"}]
    lengths = {"title": "Lengths", "suite": "standard", "cells": cells}
    lengths["contrasts"] = [{"family": "against the base model", "minus": "base"}]
    own = tiny_world.load(
        world.files.reports.parent,
        training=TRAINING | {"steps": 2},
        studies={"lengths": lengths},
        variants={"short": {"sampling": {"max_response_tokens": 14}}},
    )
    experiment = elsewhere(own, tmp_path / "results")
    cell = "small--rspo-pass--k4--n16--short--s0"
    assert experiment.for_cell(cell).config.sampling != experiment.config.sampling
    train(experiment, cell)
    assert is_good(tasks.train(experiment, cell))


def test_a_running_cell_has_a_line_for_each_step_and_so_has_a_resumed_one(
    world: Experiment, undisturbed: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process ends in step 8; the last checkpoint is that of step 6."""
    experiment = elsewhere(world, tmp_path / "results")
    report = Progress.report
    reported: list[int] = []
    found: list[list[int]] = []

    def look(self: Progress, step: int, metrics: dict[str, float]) -> None:
        lines = (experiment.files.checkpoint(CELL) / "training.jsonl").read_text().splitlines()
        reported.append(step)
        found.append([json.loads(line)["step"] for line in lines])
        report(self, step, metrics)
        if len(reported) == 8:
            raise Killed

    monkeypatch.setattr(Progress, "report", look)
    with pytest.raises(Killed):
        train(experiment, CELL)
    train(experiment, CELL)
    assert reported == [*range(1, 9), *range(7, STEPS + 1)]
    assert found == [list(range(1, step + 1)) for step in reported]
    assert without_times(experiment) == without_times(undisturbed)
    assert weights_of(experiment) == weights_of(undisturbed)


@pytest.mark.parametrize("attempt", [0, *(pytest.param(n, marks=pytest.mark.ci) for n in (1, 2))])
@pytest.mark.promise(
    "Stop or kill a run at any time: the same command resumes it, at the tiny scale to the same "
    "files, bit for bit"
)
def test_a_cell_killed_at_random_moments_ends_in_the_same_file(
    world: Experiment, undisturbed: Experiment, tmp_path: Path, attempt: int
) -> None:
    """SIGKILL another process three times, then run the same command to its end."""
    experiment = elsewhere(world, tmp_path / "results")
    draw = random.Random(attempt)
    for _ in range(3):
        process = start(experiment)
        wait_for_lock(experiment.files.folder(CELL), process)
        for _ in range(draw.randrange(4)):  # of 13 checkpoints
            wait_for_a_new_checkpoint(experiment, process)
        time.sleep(draw.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert not experiment.files.policy(CELL).exists()
    assert (experiment.files.checkpoint(CELL) / "state.pt").exists()
    assert start(experiment).wait() == 0
    assert weights_of(experiment) == weights_of(undisturbed)
    assert without_times(experiment) == without_times(undisturbed)
    names = {
        path.name.removesuffix(".provenance.json")
        for path in experiment.files.folder(CELL).iterdir()
    }
    assert names == {".lock", "policy", "training.jsonl"}


def test_a_base_model_killed_in_the_middle_ends_in_the_same_file(
    world: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(self: Progress, step: int, metrics: object) -> None:
        steps.append(step)
        if len(steps) == 25:
            raise Killed

    steps: list[int] = []
    monkeypatch.setattr("rspo.training.supervised.CHECKPOINT_EVERY", 10)
    monkeypatch.setattr(Progress, "report", report)
    experiment = dataclasses.replace(world, files=Files(tmp_path / "results", world.files.reports))
    with pytest.raises(Killed):
        make_base_policy(experiment, "small")
    make_base_policy(experiment, "small")
    assert steps == [*range(1, 26), *range(21, 41)]
    name = "model.safetensors"
    there, here = (e.files.policy("small--base") / name for e in (world, experiment))
    assert there.read_bytes() == here.read_bytes()


def test_a_cell_killed_before_its_cleanup_is_resumed(
    world: Experiment, undisturbed: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint is removed last, after everything is published."""

    def kill(checkpoint: Path) -> None:
        assert weights_of(experiment) == weights_of(undisturbed)
        assert provenance_path(experiment.files.training_log(CELL)).exists()
        raise Killed

    experiment = elsewhere(world, tmp_path / "results")
    with monkeypatch.context() as patch:
        patch.setattr("rspo.training.train.remove_checkpoint", kill)
        with pytest.raises(Killed):
            train(experiment, CELL)
    assert (experiment.files.checkpoint(CELL) / "state.pt").exists()
    train(experiment, CELL)
    assert not experiment.files.checkpoint(CELL).exists()
    assert weights_of(experiment) == weights_of(undisturbed)
    assert without_times(experiment) == without_times(undisturbed)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_names_the_checkpoint_and_more_space_resumes_from_the_one_before(
    world: Experiment, undisturbed: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has room for two checkpoints."""
    experiment = elsewhere(world, tmp_path / "results")
    state = experiment.files.checkpoint(CELL) / "state.pt"
    write_bytes, written = Path.write_bytes, []

    def write(path: Path, content: bytes) -> int:
        if path.parent == state.parent:
            written.append(path)
        if len(written) == 3:
            path.symlink_to("/dev/full")
        return write_bytes(path, content)

    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.raises(OSError, match="No space left on device") as full:
        train(experiment, CELL)
    assert full.value.filename == str(state)
    assert state.exists()
    assert not experiment.files.policy(CELL).exists()
    monkeypatch.undo()
    train(experiment, CELL)
    assert weights_of(experiment) == weights_of(undisturbed)
    assert without_times(experiment) == without_times(undisturbed)


def test_two_processes_cannot_train_the_same_cell(world: Experiment, tmp_path: Path) -> None:
    experiment = elsewhere(world, tmp_path / "results")
    process = start(experiment)
    wait_for_lock(experiment.files.folder(CELL), process)
    with pytest.raises(InputError, match=f"process {process.pid} on .* is running here"):
        train(experiment, CELL)
    process.kill()
    process.wait()
    train(experiment, CELL)


def start(experiment: Experiment) -> subprocess.Popen[bytes]:
    """Start training in another process, on this experiment's folders."""
    return subprocess.Popen(
        tiny_world.command("train", CELL, f"--results={experiment.files.results}"),
        cwd=experiment.files.reports.parent,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def wait_for_a_new_checkpoint(experiment: Experiment, process: subprocess.Popen[bytes]) -> None:
    def version() -> int:
        state = experiment.files.checkpoint(CELL) / "state.pt"
        return state.stat().st_ino if state.exists() else 0

    before, deadline = version(), time.monotonic() + 300
    while version() == before:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_checkpoint_of_another_base_is_not_used(
    world: Experiment, undisturbed: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """tests/training/verl/test_start.py has checkpoints of other settings."""
    experiment = elsewhere(world, tmp_path / "results")
    base = experiment.files.policy("small--base")
    base.parent.unlink()  # a symlink
    shutil.copytree(world.files.policy("small--base"), base)
    model = qwen2.load(base)
    with torch.no_grad():
        model.final_norm.mul_(1.01)
    qwen2.save(model, base, {"eos_token_id": 1, "pad_token_id": 0})
    record(tasks.pretrain(experiment, "small"))
    interrupt_after_a_checkpoint(experiment)
    shutil.rmtree(base)
    shutil.copytree(world.files.policy("small--base"), base)
    record(tasks.pretrain(experiment, "small"))
    with pytest.raises(InputError, match=r"base\.model\.safetensors: .*--force"):
        train(experiment, CELL)
    train(experiment, CELL, force=True)
    assert weights_of(experiment) == weights_of(undisturbed)
    removed = f"{experiment.files.checkpoint(CELL)} is removed (base.model.safetensors: "
    assert removed in capsys.readouterr().out


def test_before_the_first_checkpoint_nothing_resumes_and_other_settings_may_begin(
    world: Experiment, undisturbed: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = elsewhere(world, tmp_path / "results")
    slower = Experiment.load(
        overrides={"models": {"small": {"learning_rate": 1e-5}}}, root=experiment.root
    )
    slower = dataclasses.replace(slower, files=experiment.files)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rspo.training.local_engine.is_due", interrupt)  # in the first step
        with pytest.raises(KeyboardInterrupt) as stopped:
            train(slower, CELL)
    assert "no checkpoint was written yet; `rspo train " in str(stopped.value)
    assert str(stopped.value).endswith("` starts again, without --force")
    train(experiment, CELL)
    assert weights_of(experiment) == weights_of(undisturbed)


def test_an_interrupted_base_policy_names_its_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    experiment = tiny_world.load(tmp_path)
    monkeypatch.setattr("rspo.training.pretraining._train", interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"`rspo pretrain small .*--mirror 'a folder'`"):
        make_base_policy(experiment, "small", Path("a folder"))


def test_the_file_of_verl_that_tells_its_steps_is_the_one_that_its_checkpoints_have() -> None:
    assert VERL_FILE == LATEST_FILE


def interrupt_after_a_checkpoint(experiment: Experiment) -> None:
    """Leave the files of a run that was killed right after its first checkpoint."""

    def save(*arguments: object) -> None:
        save_checkpoint(*arguments)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rspo.training.local_engine.save_checkpoint", save)
        with pytest.raises(Killed):
            train(experiment, CELL)
    assert (experiment.files.checkpoint(CELL) / "state.pt").exists()


def test_an_infinite_learning_rate_stops_with_the_step_and_the_rate(
    world: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = elsewhere(world, tmp_path / "results")

    def explode(model: Qwen2, *_: object, **options: object) -> float:
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, torch.nan)
        return 0.0

    monkeypatch.setattr("rspo.training.local.backward", explode)
    with pytest.raises(InputError, match=f"{CELL}: the gradient is not finite at step 1"):
        train(experiment, CELL)
    assert not experiment.files.policy(CELL).exists()


def test_a_judge_model_may_be_the_verifier(world: Experiment, tmp_path: Path) -> None:
    """Rewards are its verdicts; training again with the same samples sends it no request."""
    settings = {
        "prompt": {"repository": "upstream", "commit": "0" * 40},
        "model": "test/judge",
        "start_seconds": 1,
        "concurrent_requests": 8,
        "request_seconds": 10,
        "retry_seconds": 10,
    }
    training = TRAINING | {"steps": 2, "validation": VALIDATION | {"every": None}}
    elsewhere(world, tmp_path / "results" / "tiny")
    with judge_server.running(lambda prompt: judge_server.reply("correct")) as judge:
        experiment = tiny_world.load(
            tmp_path, training=training, verifier="xverify", xverify=settings | {"url": judge.url}
        )
        write_text(
            experiment.files.judge_prompt, "PROMPT = 'Q {question} | O {output} | A {answer}'"
        )
        record(tasks.fetch_judge(experiment))
        for _ in range(2):
            train(experiment, CELL)
            shutil.rmtree(experiment.files.policy(CELL))
            assert [record["correct"] for record in without_times(experiment)] == [1.0, 1.0]
            assert len(set(judge.prompts)) == len(judge.prompts) > 0
    questions = {
        row["prompt"][0]["content"] for row in read_table(world.files.problems("train"), PROBLEMS)
    }
    assert {prompt[2:].split(" | O ")[0] for prompt in judge.prompts} <= questions
