"""The checks of `rspo doctor` that need no SLURM."""

import errno
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.slurm import launch
from rspo.slurm.doctor import findings
from rspo.slurm.launch import ERROR, INFO, WARNING, Kind
from rspo.training.verl.config_check import ConfigCheck
from tests.support import ROOT, slurm_run, slurm_world

ON_JUDGE = {"xverify": {"url": "http://judge:8000"}}
ON_CPUS = {"verl": {"device": "cpu", "ranks": 1}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, without SLURM, on a large disk, with a config that verl accepts."""
    folder = slurm_world.make_project(tmp_path / "project")
    shutil.copy(ROOT / "config" / "paper.yaml", folder / "config")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(launch, "check_configs", lambda experiment: ConfigCheck())
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
        ({"train.gres": None}, {}, [(ERROR, "train requests no GPU.*set its gres")]),
        ({"sample": None}, {}, [(ERROR, "sample requests no GPU.*set its gres")]),
        ({"score.gres": None}, {}, [(ERROR, r"score requests no GPU.*xverify\.url: null")]),
        ({"score.gres": None}, ON_JUDGE, []),
        ({f"{rule}.gres": None for rule in ("train", "sample", "score")}, ON_CPUS, []),
        ({"train.gres": None, "train.slurm_extra": "'-G 8 --signal=USR1@600'"}, {}, []),
        # verl refuses to start with fewer GPUs than ranks.
        ({"train.gres": "gpu:h800:4"}, {}, [(ERROR, r"train requests 4 .*verl\.ranks")]),
        ({"train.gres": "gpu:h800:16"}, {}, [(WARNING, "train requests 16 .* same number")]),
        # The signal. By hand: 4 steps of 7B, whose range of 38.2 to 145.7 s has the mean 91.9, and
        # 16 bytes of 7.616e9 numbers at a GB/s are 489.6 seconds.
        (
            {"train.slurm_extra": "'--open-mode=append'"},
            {},
            [(WARNING, r"train\.slurm_extra has no --signal.* set '--signal=USR1@600'")],
        ),
        ({"train.slurm_extra": "'--signal=USR1@490'"}, {}, []),
        (
            {"train.slurm_extra": "'--signal=USR1@489'"},
            {},
            [(WARNING, r"train\.slurm_extra: 489 seconds.* set '--signal=USR1@600'")],
        ),
        ({"train.runtime": 10}, {}, [(ERROR, r"train\.runtime = 10m: .*set 40m or more")]),
        ({"train.runtime": 39}, {}, [(WARNING, r"train\.runtime = 39m: .*set 40m or more")]),
        # What Snakemake evaluates for each job cannot be checked.
        ({"train.gres": "f'gpu:h800:{8 if attempt else 4}'"}, {}, []),
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


def test_a_run_without_such_jobs_is_not_told(project: Path) -> None:
    slurm_world.edit_profile(project, {"set-resources.train.gres": None})
    assert check("paper", "curves", "sample") == []
    assert len(check("paper", "train")) == 1


def test_a_file_system_without_locks_is_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    ((kind, line),) = check("paper")
    assert kind is ERROR
    assert line.startswith(f"{project}: this file system does not support locks (No locks avail")


@pytest.mark.parametrize(
    ("jobs", "gigabytes", "expected"),
    [
        (200, 48, (ERROR, "the smallest cell needs 49 GB")),
        (200, 2590, (WARNING, "25 cells at a time and the policies of the others need 2,595 GB")),
        (1, 530, (WARNING, "1 cells at a time and the policies of the others need 538 GB")),
    ],
)
def test_a_disk_without_space_for_checkpoints_is_reported(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    jobs: int,
    gigabytes: int,
    expected: tuple[Kind, str] | None,
) -> None:
    """By hand: two checkpoints of 16 bytes per parameter are 49 GB for 1.54e9 parameters. For 18
    cells of 1.54e9 and 7 of 7.62e9 parameters at a time, they are 2,595 GB. One cell of 7.62e9
    parameters is 244 GB, and the policies of the others are 294."""
    slurm_world.edit_profile(project, {"jobs": jobs})
    set_free_space(monkeypatch, gigabytes * 1e9)
    found = check("paper")
    assert [kind for kind, _ in found] == ([expected[0]] if expected else [])
    assert not expected or expected[1] in found[0][1]


def test_an_image_that_is_missing_or_whose_programs_see_no_gpu_is_reported(project: Path) -> None:
    for options, expected in (
        ("--nv", ["envs/rspo.sif"]),
        ("--bind /data", ["envs/rspo.sif", "no --nv"]),
    ):
        slurm_world.edit_profile(project, {"apptainer-args": options})
        found = findings(Experiment.load("paper"), deployment="apptainer")
        errors = [one.line for one in found if one.kind is ERROR]
        assert len(errors) == len(expected)
        assert all(text in line for text, line in zip(expected, errors, strict=True))
        assert any("jobs use the environment of apptainer" in one.line for one in found)


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
