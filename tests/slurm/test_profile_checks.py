"""The checks of `rspo doctor` that need no SLURM."""

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest
import snakemake.cli  # noqa: F401  # looks for a shell, which some tests hide
import yaml

from rspo.config.experiment import Experiment
from rspo.slurm.doctor import findings
from tests.support import ROOT, slurm_world


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, without SLURM."""
    folder = slurm_world.make_project(tmp_path / "project")
    shutil.copy(ROOT / "config" / "paper.yaml", folder / "config")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def of_paper(project: Path, **settings: Any) -> tuple[list[str], list[str]]:
    """What must change at the paper's scale, and the notes."""
    judge = {"xverify": {"url": "http://judge:8000"}}
    return findings(Experiment.load("paper", judge | settings, root=project))


@pytest.mark.parametrize(
    ("command", "noted"), [("module load cuda", 1), ("", 1), ("export HF_HUB_OFFLINE=1", 0)]
)
def test_jobs_that_would_connect_to_the_hub_are_noted(
    project: Path, command: str, noted: int
) -> None:
    slurm_world.set_precommand(project, command)
    notes = of_paper(project)[1]
    assert len([line for line in notes if "has no export HF_HUB_OFFLINE=1" in line]) == noted


@pytest.mark.parametrize(
    ("verifier", "url", "needed"),
    [
        ("xverify", None, True),
        ("xverify", "http://judge:8000", False),
        ("rules", None, False),
    ],
)
def test_a_gpu_for_scoring_without_an_own_judge_is_noted(
    project: Path, verifier: str, url: str | None, needed: bool
) -> None:
    notes = of_paper(project, verifier=verifier, xverify={"url": url})[1]
    key = "slurm/config.yaml: set-resources.score requests gpu:h800:1, which is not needed"
    assert [line.startswith(key) for line in notes] == [*[True] * (not needed), False]


@pytest.mark.parametrize(
    ("rule", "settings", "how"),
    [
        ("train", {}, "training (verl.device: cuda) needs them: set its gres"),
        (
            "train_on_nodes",
            {"verl": {"nodes": 2}},
            "training (verl.device: cuda) needs them: set --gpus-per-node=TYPE:NUMBER in its "
            "slurm_extra",
        ),
        ("sample", {}, "sampling (sampler: vllm) needs them: set its gres"),
    ],
)
@pytest.mark.parametrize("missing", ["line", "entry"])
def test_a_rule_that_needs_gpus_and_requests_none_is_reported(
    project: Path, rule: str, settings: dict[str, Any], how: str, missing: str
) -> None:
    path = project / "slurm" / "config.yaml"
    profile = yaml.safe_load(path.read_text())
    entry = profile["set-resources"].pop(rule)
    if missing == "line":
        entry.pop("gres", None)
        extra = "'--signal=USR1@600 --open-mode=append'"
        profile["set-resources"][rule] = entry | {"slurm_extra": extra}
    path.write_text(yaml.safe_dump(profile))
    (line,) = of_paper(project, **settings)[0]
    assert line == f"slurm/config.yaml: set-resources.{rule} requests no GPU, but {how}"


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        ("score", {}),
        ("agreement", {"verifier": "rules", "agreement": {"against": "xverify"}}),
    ],
)
@pytest.mark.parametrize("url", [None, "http://judge:8000"])
def test_a_judge_without_a_gpu_is_reported(
    project: Path, rule: str, settings: dict[str, Any], url: str | None
) -> None:
    slurm_world.edit_profile(project, "set-resources", "score", gres=None)
    change = of_paper(project, xverify={"url": url}, **settings)[0]
    line = (
        f"slurm/config.yaml: set-resources.{rule} requests no GPU, but a judge of its own "
        "(xverify.url: null) needs them: set its gres"
    )
    assert [found for found in change if f".{rule} requests" in found] == [line] * (url is None)


def test_a_file_system_without_locks_is_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    slurm_world.edit_profile(project, "set-resources", "sample", gres=None)
    monkeypatch.setattr("fcntl.flock", refuse)
    gpus, locks = of_paper(project)[0]
    assert "sample requests no GPU" in gpus
    assert locks == (
        f"{project}: this file system does not support locks (No locks available); mount it with "
        "flock (Lustre: -o flock; NFS: version 4) or use another one"
    )


@pytest.mark.parametrize("words", ["--gpus=8", "-G 8", "--gres=gpu:8", "--gres gpu:h800:8"])
def test_gpus_in_slurm_extra_are_recognized(project: Path, words: str) -> None:
    extra = f"'{words} --signal=USR1@600'"
    slurm_world.edit_profile(project, "set-resources", "train", gres=None, slurm_extra=extra)
    assert of_paper(project)[0] == []


def test_gpus_for_work_on_cpus_are_noted(project: Path) -> None:
    notes = findings(Experiment.load("tiny", root=project))[1]
    assert [line for line in notes if "is not needed" in line] == [
        f"slurm/config.yaml: set-resources.{rule} requests gpu:h800:{gpus}, which is not needed: "
        f"{reason}; remove that line"
        for rule, gpus, reason in (
            ("sample", 1, "sampling runs on CPUs (sampler: torch)"),
            ("score", 1, "scoring starts no judge model (the verifier needs none)"),
            ("train", 8, "training runs on CPUs (engine: local)"),
        )
    ]


def test_a_signal_too_late_for_a_checkpoint_is_reported(project: Path) -> None:
    """By hand: 4 steps of 16 h / 580, and 16 bytes of 7.62e9 numbers at a GB/s: 519.2 seconds."""
    for seconds, problems in ((520, 0), (519, 1)):
        extra = f"'--signal=USR1@{seconds}'"
        slurm_world.edit_profile(project, "set-resources", "train", slurm_extra=extra)
        assert len(of_paper(project)[0]) == problems
    assert of_paper(project)[0][0].endswith("a step and a checkpoint; set '--signal=USR1@600'")


@pytest.mark.parametrize(
    ("runtime", "shown"),
    [(1, "1m"), (5, "5m"), (10, "10m"), (11, None), (None, None)],
)
def test_a_time_limit_shorter_than_the_signal_is_reported(
    project: Path, runtime: int | None, shown: str | None
) -> None:
    slurm_world.edit_profile(project, "set-resources", "train", runtime=runtime)
    assert of_paper(project)[0] == [
        f"slurm/config.yaml: set-resources.train.runtime = {shown} is no longer than the 600 "
        "seconds of --signal: every job would be asked to stop at its start; set 30m or more"
    ] * (shown is not None)
