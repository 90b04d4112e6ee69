"""The `rspo` command: what a user sees for good and bad input."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rspo.cli import main, parse_overrides
from rspo.errors import InputError

from . import tiny_world

CELL = "small--rspo-pass--k4--n16--s0"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the configs, as the current one."""
    shutil.copytree(tiny_world.ROOT / "config", tmp_path / "config")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_overrides_are_read_as_yaml_at_their_place() -> None:
    found = parse_overrides(["seeds=3", "training.steps=5", "training={ppo_clip: 0.1}"])
    assert found == {"seeds": 3, "training": {"steps": 5, "ppo_clip": 0.1}}


@pytest.mark.parametrize("item", ["seeds", "=3", "a.b=[", "seeds=3,"])
def test_a_malformed_override_is_named(item: str) -> None:
    if item == "seeds=3,":
        assert parse_overrides([item]) == {"seeds": "3,"}  # for the config's check to refuse
        return
    with pytest.raises(InputError, match="--set"):
        parse_overrides([item])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["train", "small--rspo-pass--k5--n16--s0"], "did you mean small--rspo-pass--k"),
        (["train", CELL, "--set", "trainin.steps=5"], "did you mean 'training'?"),
        (["train", CELL, "--scale", "hugh"], "config/hugh.yaml: no such config file"),
        (["train", CELL, "--set", "engine=verl"], "engine = 'verl'"),
        (["train", CELL], "results/tiny/problems/train.parquet: no such file"),
        (["pretrain", "smal"], "no model 'smal' in config/tiny.yaml; has small, medium"),
        (["prepare", "aime"], "no data set 'aime' in config/tiny.yaml; has train, validation"),
        (["sample", CELL, "linear"], f"results/tiny/cells/{CELL}/policy: no such policy"),
        (["score", CELL, "linear"], "no such file"),
        (["curves", CELL, "standard"], "no such file"),
        (["curves", CELL, "other"], "no suite 'other'"),
        (["figure", "fig_mian"], "fig_mian"),
        (["figure", "fig_main"], "curves"),
        (["score"], "needs policy and benchmark, or --responses FILE --output FILE"),
        (["score", "--responses", "a.jsonl"], "needs output"),
        (["score", "--responses", "a.jsonl", "--output", "b.parquet"], "a.jsonl: no such file"),
        (["curves", "--scores", "a.parquet", "--output", "b.csv"], "a.parquet: no such file"),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_exit_code_2(
    project: Path, capsys: pytest.CaptureFixture[str], command: list[str], message: str
) -> None:
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.startswith("rspo: error: ")
    assert error.count("\n") == 1
    assert message in error
    written = [path for path in project.rglob("*") if path.is_file() and "config" not in path.parts]
    assert written == []


def test_ctrl_c_ends_a_command_with_130_and_leaves_only_what_it_goes_on_from(
    project: Path,
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rspo.cli", "pretrain", "small"],
        env=os.environ | {"PYTHONPATH": str(tiny_world.ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    folder = project / "results" / "tiny" / "cells" / "small--base"
    deadline = time.monotonic() + 60
    while not (folder / "checkpoint" / "progress.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert error == "rspo: interrupted\n"
    assert [item.name for item in folder.iterdir()] == ["checkpoint"]


def test_a_full_disk_is_one_line(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28), "results/tiny/problems/linear.parquet")

    monkeypatch.setattr("rspo.tables.pq.write_table", full)
    assert main(["prepare", "linear"]) == 1
    error = capsys.readouterr().err
    assert error == ("rspo: error: results/tiny/problems/linear.parquet: No space left on device\n")
    assert not [path for path in (project / "results").rglob("*") if path.is_file()]


def test_every_step_of_one_cell_runs_without_snakemake(project: Path) -> None:
    """prepare, pretrain, train, sample, score, curves, status: by hand, one after the other."""
    options = [
        "--set=models.small.scratch={examples: 500, batch: 16, steps: 30}",
        "--set=training={steps: 4, prompts_per_step: 10, mini_batch_prompts: 5}",
        "--set=data.train.generated.problems=10",
        "--set=data.suites.standard.linear.generated.problems=5",
        "--set=evaluation={samples: 4, k: [1, 2], resamples: 20}",
        "--set=data.suites.standard={}",
    ]
    for command in (
        ["prepare", "train"],
        ["pretrain", "small"],
        ["train", CELL],
        ["prepare", "linear"],
        ["sample", CELL, "linear"],
        ["score", CELL, "linear"],
    ):
        assert main([*command, *options]) == 0
    for name in ("policy", "training.jsonl", "samples/linear.parquet", "scores/linear.parquet"):
        path = project / "results" / "tiny" / "cells" / CELL / name
        assert path.exists()
        assert path.with_name(path.name + ".provenance.json").is_file() or name == "training.jsonl"
    assert main(["status", *options]) == 0
