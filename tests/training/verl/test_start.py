"""How a run with verl handles the files of earlier runs, before it starts Ray."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.signals import SNAKEMAKE
from rspo.core.tables import PROBLEMS, write_table
from rspo.pipeline import tasks
from rspo.pipeline.run import record
from rspo.policies.tokenizer import save_tokenizer
from rspo.status.policies import statuses
from rspo.training.progress import Progress
from rspo.training.train import train
from rspo.training.verl import run
from rspo.training.verl.interface import require_version
from tests.support import tiny_world
from tests.support.problem_rows import problem

CELL = "small--rspo-pass--k4--n16--s0"
STEPS = tiny_world.OVERRIDES["training"]["steps"]


class Started(Exception):
    """Replaces the start of Ray."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has problems and a base policy; training raises Started in place of starting.

    The last problem is longer than the limit.
    """

    def start(*_: object) -> None:
        raise Started

    experiment = load(tmp_path)
    save_tokenizer(experiment.files.policy("small--base"), prompt_tokens=10, context=28)
    (experiment.files.policy("small--base") / "a.safetensors").touch()
    problems = [problem("train", 0, "1+1=?"), problem("train", 1, "(12)+(34)-5=?")]
    write_table(experiment.files.problems("train"), PROBLEMS, problems)
    record_inputs(experiment)
    monkeypatch.setattr(run, "_run", start)
    return tmp_path


def record_inputs(experiment: Experiment) -> None:
    for step in (tasks.prepare(experiment, "train"), tasks.pretrain(experiment, "small")):
        record(step)


def load(root: Path, **overrides: Any) -> Experiment:
    return tiny_world.load(root, engine="verl", **overrides)


def with_clip(root: Path, clip: float) -> Experiment:
    return load(root, training=tiny_world.OVERRIDES["training"] | {"ppo_clip": clip})


def start(experiment: Experiment) -> None:
    with pytest.raises(Started):
        train(experiment, CELL)


def leave_checkpoint(experiment: Experiment, step: int, ranks: int = 1) -> Path:
    """Write what verl writes; return the folder of the weights."""
    checkpoint = experiment.files.checkpoint(CELL)
    folder = checkpoint / f"global_step_{step}"
    (folder / "actor" / "huggingface").mkdir(parents=True)
    (folder / "actor" / f"model_world_size_{ranks}_rank_0.pt").touch()
    (folder / "records.json").write_text(json.dumps([{"gradient_clipped": 0.0}] * step))
    (checkpoint / "latest_checkpointed_iteration.txt").write_text(str(step))
    Progress(checkpoint, 0, STEPS).report(STEPS, {})
    return folder / "actor" / "huggingface"


def names(experiment: Experiment) -> list[str]:
    """Names of the folders in the cell's folder."""
    return sorted(path.name for path in experiment.files.folder(CELL).iterdir() if path.is_dir())


def test_other_settings_start_over_in_snakemake_only(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (with_clip(root, clip) for clip in (0.1, 0.2))
    start(first)
    leave_checkpoint(first, step=2)
    with pytest.raises(InputError, match=r"ppo_clip: 0\.1 -> 0\.2\): --results DIR .*--force"):
        start(second)
    assert first.files.checkpoint(CELL).is_dir()
    monkeypatch.setenv(SNAKEMAKE, "")
    capsys.readouterr()
    start(second)
    assert capsys.readouterr().out == (
        f"{first.files.checkpoint(CELL)} is removed (settings.training.ppo_clip: 0.1 -> 0.2): "
        "starting from step 1\n"
    )
    assert names(second) == ["checkpoint"]
    assert [*second.files.checkpoint(CELL).glob("global_step_*")] == []
    assert {one.state for one in statuses(second) if one.policy == CELL} == {"waiting"}


def test_other_settings_that_verl_rejects_keep_the_checkpoint(root: Path) -> None:
    first = with_clip(root, 0.1)
    start(first)
    leave_checkpoint(first, step=2)
    training = tiny_world.OVERRIDES["training"] | {"ppo_clip": 0.2}
    with pytest.raises(InputError, match=r"trainer\.nonsense"):
        train(load(root, training=training, verl={"overrides": {"trainer": {"nonsense": 1}}}), CELL)
    assert (first.files.checkpoint(CELL) / "global_step_2").is_dir()


def test_operational_settings_keep_the_checkpoint(root: Path) -> None:
    start(load(root))
    leave_checkpoint(load(root), step=2)
    actor = {"ppo_max_token_len_per_gpu": 8192, "fsdp_config": {"param_offload": True}}
    faster = load(root, verl={"overrides": {"actor_rollout_ref": {"actor": actor}}})
    start(faster)
    assert (faster.files.checkpoint(CELL) / "global_step_2").is_dir()
    assert names(faster) == ["checkpoint"]


def test_a_checkpoint_of_other_ranks_is_an_error_and_is_kept(root: Path) -> None:
    start(load(root))
    policy = leave_checkpoint(load(root), step=2, ranks=4)
    words = "written by 4 ranks; 2 ranks cannot read it. Set verl.ranks = 4"
    with pytest.raises(InputError, match=words):
        train(load(root, verl={"ranks": 2}), CELL)
    assert policy.is_dir()
    start(load(root, verl={"ranks": 4}))


def test_after_the_last_checkpoint_nothing_starts_and_it_is_removed(root: Path) -> None:
    experiment = load(root)
    start(experiment)
    (leave_checkpoint(experiment, STEPS) / "model.safetensors").write_text("trained")
    train(experiment, CELL)
    assert (experiment.files.policy(CELL) / "model.safetensors").read_text() == "trained"
    assert names(experiment) == ["policy"]
    note = json.loads((experiment.files.folder(CELL) / "policy.provenance.json").read_text())
    assert note["notes"] == {"prompts_too_long": ["train/1"]}


def test_another_version_of_verl_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "verl", SimpleNamespace(__version__="0.10.0"))
    with pytest.raises(InputError, match=r"found verl 0\.10\.0; rspo supports verl 0\.9\.1"):
        require_version()
