"""The checks of `rspo doctor` that need no SLURM."""

import errno
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.slurm import input_checks
from rspo.slurm.doctor import findings
from rspo.slurm.launch import ERROR, INFO, WARNING, Kind
from rspo.training.verl.config_check import ConfigCheck
from tests.support import ROOT, slurm_run, slurm_world

ON_JUDGE = {"xverify": {"url": "http://judge:8000"}}
SAME_GPUS = {"models": {"qwen2.5-math-1.5b": {"gpus": 8}}}
ON_CPUS = {"verl": {"device": "cpu", "ranks": 1}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, without SLURM, on a large disk, with a config that verl accepts."""
    folder = slurm_world.make_project(tmp_path / "project")
    shutil.copy(ROOT / "config" / "paper.yaml", folder / "config")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(input_checks, "check_configs", lambda experiment: ConfigCheck())
    set_free_space(monkeypatch, 1e13)
    return folder


def set_free_space(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))


def check(scale: str, *rules: str, **settings: Any) -> list[tuple[Kind, str]]:
    """What stops jobs or should change."""
    found = findings(Experiment.load(scale, settings), rules)
    return [(finding.kind, finding.line) for finding in found if finding.kind is not INFO]


@pytest.mark.parametrize(
    ("changes", "settings", "expected"),
    [
        ({}, {}, []),
        # A line or an entry that is missing, and other options that request GPUs.
        (
            {"train.gres": None},
            {},
            [
                (
                    ERROR,
                    r"train requests no GPU, but training \(verl\.device: cuda\) needs .*its gres",
                )
            ],
        ),
        ({"sample": None}, {}, [(ERROR, "sample requests no GPU.*set its gres")]),
        ({"score.gres": None}, {}, [(ERROR, r"score requests no GPU.*xverify\.url: null")]),
        ({"score.gres": None}, ON_JUDGE, []),
        ({f"{rule}.gres": None for rule in ("train", "sample", "score")}, ON_CPUS, []),
        (
            {"train.gres": None, "train.slurm_extra": "'-G 8 --signal=USR1@600'"},
            {},
            [(WARNING, "train requests as many GPUs for every cell, .* train on 4, 8 GPUs")],
        ),
        (
            {"train.gres": None, "train.slurm_extra": "'-G 8 --signal=USR1@600'"},
            SAME_GPUS,
            [],
        ),
        # verl refuses to start with fewer GPUs than ranks.
        (
            {"train.gres": "gpu:h800:4"},
            {},
            [
                (
                    ERROR,
                    r"train requests 4 GPUs, and a cell of qwen2\.5-math-7b trains on 8: .*ranks",
                )
            ],
        ),
        ({"train.gres": "gpu:h800:16"}, {}, []),
        # The signal.
        (
            {"train.slurm_extra": "'--open-mode=append'"},
            {},
            [(WARNING, r"train\.slurm_extra has no --signal.* set '--signal=USR1@600'")],
        ),
        ({"train.runtime": 10}, {}, [(ERROR, r"train\.runtime = 10m: .*set 40m or more")]),
        ({"train.runtime": 39}, {}, [(WARNING, r"train\.runtime = 39m: .*set 40m or more")]),
        # What Snakemake evaluates for each job.
        ({"train.mem_mb": "500000 * attempt"}, {}, []),
    ],
)
def test_each_value_that_does_not_fit_the_paper_is_named_with_what_to_set(
    project: Path,
    changes: dict[str, Any],
    settings: dict[str, Any],
    expected: list[tuple[Kind, str]],
) -> None:
    """Changes of `set-resources`."""
    slurm_world.edit_profile(
        project, {f"set-resources.{key}": value for key, value in changes.items()}
    )
    found = check("paper", **settings)
    assert [kind for kind, _ in found] == [kind for kind, _ in expected]
    for (_, line), (_, pattern) in zip(found, expected, strict=True):
        assert re.match(rf"slurm/config\.yaml: set-resources\.{pattern}", line)


@pytest.mark.promise("rspo doctor --scale paper")
def test_the_command_says_whether_something_must_change(
    project: Path, promised: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(promised) == 0
    output = capsys.readouterr().out
    not_installed = "SLURM is not installed on this machine (no sinfo): the cluster was not checked"
    assert not_installed in [line.strip() for line in output.splitlines()]
    assert output.endswith("nothing to change\n")
    slurm_world.edit_profile(project, {"set-resources.train.gres": None})
    assert main(promised) == 2
    assert "set-resources.train requests no GPU" in capsys.readouterr().out


def test_a_run_without_such_jobs_is_not_told(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm_world.edit_profile(project, {"set-resources.train.gres": None})
    refused = ConfigCheck(["no flash-attn"])
    monkeypatch.setattr(input_checks, "check_configs", lambda experiment: refused)
    assert check("paper", "curves", "sample") == []
    (no_gpu, not_accepted) = check("paper", "train")
    assert "train requests no GPU" in no_gpu[1]
    assert not_accepted == (ERROR, "no flash-attn")


def test_a_file_system_without_locks_is_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    ((kind, line),) = check("paper")
    assert kind is ERROR
    assert line.startswith(f"{project}/.rspo-doctor-")
    assert "this file system does not support locks (No locks avail" in line


def test_a_disk_without_space_for_the_checkpoints_of_one_cell_stops_the_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: two checkpoints of 16 bytes per parameter are 49.4 GB for 1.544e9 parameters."""
    slurm_world.edit_profile(project, {"jobs": 1})
    set_free_space(monkeypatch, 48e9)
    ((kind, line),) = check("paper")
    assert kind is ERROR
    assert "results/paper: 48 GB are free; the smallest cell needs 49 GB" in line


@pytest.mark.parametrize(
    ("jobs", "gigabytes", "needed"),
    [
        (200, 2590, "25 cells at a time and the policies of the others need 2,595 GB"),
        ("unlimited", 2590, "25 cells at a time and the policies of the others need 2,595 GB"),
        (1, 530, "1 cells at a time and the policies of the others need 538 GB"),
    ],
)
def test_a_disk_without_space_for_all_cells_that_train_at_once_is_a_warning(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    jobs: int | str,
    gigabytes: int,
    needed: str,
) -> None:
    """By hand: for 18 cells of 1.544e9 and 7 of 7.616e9 parameters, two checkpoints each are 2,595
    GB. One cell of 7.616e9 parameters is 244 GB, and the policies of the others, 4 bytes per
    parameter, are 294."""
    slurm_world.edit_profile(project, {"jobs": jobs})
    set_free_space(monkeypatch, gigabytes * 1e9)
    ((kind, line),) = check("paper")
    assert kind is WARNING
    assert needed in line
    set_free_space(monkeypatch, (gigabytes + 10) * 1e9)
    assert check("paper") == []


def test_problems_that_do_not_fit_a_model_are_reported(project: Path) -> None:
    """As soon as both exist, for each pair that a job uses."""
    tiny = {"training": {"validation": {"every": None}}}
    assert check("tiny", **tiny) == []
    slurm_run.make_inputs(Experiment.load("tiny"))
    assert check("tiny", **tiny) == []
    found = check("tiny", **tiny, sampling={"max_response_tokens": 1000})
    for (kind, line), data_set in zip(found, ("train", "linear"), strict=True):
        assert kind is ERROR
        folder = "results/tiny/cells/small--base/policy"
        assert line.startswith(f"small on {data_set}: {folder}/config.json: ")
        assert "max_position_embeddings = " in line
    too_few = (
        "small on train: the training set has 0 problems; training.prompts_per_step = 10 needs"
    )
    ((kind, line),) = check("tiny", **tiny, sampling={"max_prompt_tokens": 2})
    assert kind is ERROR
    assert line.startswith(too_few)
