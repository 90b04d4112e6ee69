"""The checks of `rspo doctor` that need no SLURM."""

import errno
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake.cli  # noqa: F401  # looks for a shell, which some tests hide
import yaml

from rspo.config.experiment import Experiment
from rspo.slurm import launch
from rspo.slurm.doctor import findings
from rspo.slurm.launch import Finding, Kind
from rspo.training.verl.config_check import ConfigCheck
from tests.support import ROOT, slurm_run, slurm_world


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, without SLURM, on a large disk, with a config that verl accepts."""
    folder = slurm_world.make_project(tmp_path / "project", scoring_gpu=True)
    shutil.copy(ROOT / "config" / "paper.yaml", folder / "config")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(launch, "check_configs", lambda experiment: ConfigCheck())
    set_free_space(monkeypatch, 1e13)
    return folder


def set_free_space(monkeypatch: pytest.MonkeyPatch, free: float) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))


def check(
    scale: str, *rules: str, deployment: str = "", **settings: Any
) -> tuple[list[Finding], list[str]]:
    """What stops jobs or should change, and the notes."""
    found = findings(Experiment.load(scale, settings), rules, deployment)
    problems = [finding for finding in found if finding.kind is not Kind.INFO]
    return problems, [finding.line for finding in found if finding.kind is Kind.INFO]


def of_paper(*rules: str, **settings: Any) -> list[Finding]:
    return check("paper", *rules, **settings)[0]


@pytest.mark.parametrize(
    ("command", "noted"), [("module load cuda", 1), ("", 1), ("export HF_HUB_OFFLINE=1", 0)]
)
def test_jobs_that_would_connect_to_the_hub_are_noted(
    project: Path, command: str, noted: int
) -> None:
    slurm_world.set_precommand(project, command)
    notes = check("paper")[1]
    assert len([line for line in notes if "has no export HF_HUB_OFFLINE=1" in line]) == noted


@pytest.mark.parametrize(
    ("verifier", "url", "needed"),
    [
        ("xverify", None, True),
        ("xverify", "http://judge:8000", False),
        ("rules", None, False),
    ],
)
def test_a_gpu_for_scoring_without_an_own_judge_should_change(
    project: Path, verifier: str, url: str | None, needed: bool
) -> None:
    found = of_paper(verifier=verifier, xverify={"url": url})
    key = "slurm/config.yaml: set-resources.score requests gpu:h800:1, which is not needed"
    assert [finding.line.startswith(key) for finding in found] == [True] * (not needed)
    assert [finding.kind for finding in found] == [Kind.WARNING] * (not needed)


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
    profile["set-resources"].pop("score")
    if missing == "line":
        entry.pop("gres", None)
        extra = "'--signal=USR1@600 --open-mode=append'"
        profile["set-resources"][rule] = entry | {"slurm_extra": extra}
    path.write_text(yaml.safe_dump(profile))
    line = f"slurm/config.yaml: set-resources.{rule} requests no GPU, but {how}"
    settings = settings | {"xverify": {"url": "http://judge:8000"}}  # no judge of scoring
    assert of_paper(**settings) == [Finding(Kind.ERROR, line)]
    assert of_paper("curves", **settings) == []  # a run without such jobs
    assert len(of_paper(rule, **settings)) == 1


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
    problems = of_paper(xverify={"url": url}, **settings)
    line = (
        f"slurm/config.yaml: set-resources.{rule} requests no GPU, but a judge of its own "
        "(xverify.url: null) needs them: set its gres"
    )
    of_rule = [finding for finding in problems if f".{rule} requests" in finding.line]
    assert of_rule == [Finding(Kind.ERROR, line)] * (url is None)


def test_without_gpus_everything_can_run_on_cpus(project: Path) -> None:
    """With `verl.device: cpu`, training, vLLM and the judge need none."""
    path = project / "slurm" / "config.yaml"
    path.write_text(re.sub(r"\n +gres: .*", "", path.read_text()))
    problems, notes = check("paper", verl={"device": "cpu", "ranks_per_node": 1})
    assert problems == []
    lines = [line for line in notes if "requests no GPU" in line]
    assert [line.split(" requests")[0] for line in lines] == [
        f"slurm/config.yaml: set-resources.{rule}" for rule in ("sample", "score")
    ]


def test_a_file_system_without_locks_is_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    slurm_world.edit_profile(project, "set-resources", "sample", gres=None)
    monkeypatch.setattr("fcntl.flock", refuse)
    gpus, locks = of_paper(xverify={"url": "http://judge:8000"})
    assert "sample requests no GPU" in gpus.line
    assert locks.line == (
        f"{project}: this file system does not support locks (No locks available); mount it with "
        "flock (Lustre: -o flock; NFS: version 4) or use another one"
    )


@pytest.mark.parametrize("words", ["--gpus=8", "-G 8", "--gres=gpu:8", "--gres gpu:h800:8"])
def test_gpus_in_slurm_extra_are_recognized(project: Path, words: str) -> None:
    extra = f"'{words} --signal=USR1@600'"
    slurm_world.edit_profile(project, "set-resources", "train", gres=None, slurm_extra=extra)
    assert of_paper() == []


def test_gpus_for_work_on_cpus_are_noted(project: Path) -> None:
    problems, notes = check("tiny")
    lines = [*(finding.line for finding in problems), *notes]
    assert [line for line in lines if "is not needed" in line] == [
        f"slurm/config.yaml: set-resources.{rule} requests gpu:h800:{gpus}, which is not needed: "
        f"{reason}; remove that line"
        for rule, gpus, reason in (
            ("score", 1, "scoring starts no judge model (the verifier needs none)"),
            ("sample", 1, "sampling runs on CPUs (sampler: torch)"),
            ("train", 8, "training runs on CPUs (engine: local)"),
        )
    ]


def test_a_signal_too_late_for_a_checkpoint_is_reported(project: Path) -> None:
    """By hand: 4 steps of 16 h / 580, and 16 bytes of 7.62e9 numbers at a GB/s: 519.2 seconds."""
    for seconds, problems in ((520, 0), (519, 1)):
        extra = f"'--signal=USR1@{seconds}'"
        slurm_world.edit_profile(project, "set-resources", "train", slurm_extra=extra)
        assert [finding.kind for finding in of_paper()] == [Kind.WARNING] * problems
    assert of_paper()[0].line.endswith("a step and a checkpoint; set '--signal=USR1@600'")


@pytest.mark.parametrize(
    ("runtime", "shown"),
    [(1, "1m"), (5, "5m"), (10, "10m"), (40, None), (None, None)],
)
def test_a_time_limit_shorter_than_the_signal_is_reported(
    project: Path, runtime: int | None, shown: str | None
) -> None:
    slurm_world.edit_profile(project, "set-resources", "train", runtime=runtime)
    line = (
        f"slurm/config.yaml: set-resources.train.runtime = {shown} is no longer than the 600 "
        "seconds of --signal: every job would be asked to stop at its start; set 40m or more"
    )
    assert of_paper() == [Finding(Kind.ERROR, line)] * (shown is not None)


@pytest.mark.parametrize(("runtime", "too_short"), [(12, True), (39, True), (40, False)])
def test_a_time_limit_just_above_the_signal_should_change(
    project: Path, runtime: int, too_short: bool
) -> None:
    slurm_world.edit_profile(project, "set-resources", "train", runtime=runtime)
    line = (
        f"slurm/config.yaml: set-resources.train.runtime = {runtime}m: --signal comes 600 seconds "
        "earlier, perhaps before the models are loaded and a step is done, so that jobs would "
        "requeue themselves without progress; set 40m or more"
    )
    assert of_paper() == [Finding(Kind.WARNING, line)] * too_short


@pytest.mark.parametrize("retries", [2, 5])
def test_retries_too_few_for_sampling_should_change(project: Path, retries: int) -> None:
    """The paper's longest sampling takes up to 21.3 hours: six jobs of 4 hours."""
    slurm_world.edit_profile(project, "set-resources", "sample", runtime="4h")
    path = project / "slurm" / "config.yaml"
    path.write_text(path.read_text().replace("retries: 2", f"retries: {retries}"))
    line = (
        "slurm/config.yaml: set-resources.sample.runtime = 4h: the longest sampling may take 21.3 "
        "h, and retries = 2 resumes it 2 times: set a longer runtime, or retries: 5"
    )
    assert of_paper("sample") == [Finding(Kind.WARNING, line)] * (retries == 2)


def test_the_shipped_profile_and_the_paper_scale_fit_each_other(project: Path) -> None:
    """Also without `xverify.url`: training starts its own judges."""
    assert of_paper() == []


@pytest.mark.parametrize(("gpus", "kind"), [(4, Kind.ERROR), (8, None), (16, Kind.WARNING)])
@pytest.mark.parametrize("nodes", [1, 2])
def test_other_numbers_of_gpus_than_ranks_are_reported(
    project: Path, gpus: int, kind: Kind | None, nodes: int
) -> None:
    """verl refuses to start with fewer GPUs than ranks."""
    rule = "train" if nodes == 1 else "train_on_nodes"
    extra = f"'--signal=USR1@600 --gpus-per-node=h800:{gpus}'"
    slurm_world.edit_profile(project, "set-resources", rule, gres=None, slurm_extra=extra)
    line = (
        f"slurm/config.yaml: set-resources.{rule} requests {gpus} GPUs of a node, and "
        "verl.ranks_per_node = 8 uses one each: set both to the same number"
    )
    assert of_paper(verl={"nodes": nodes}) == ([Finding(kind, line)] if kind else [])


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        (48e9, (Kind.ERROR, "48 GB are free; the smallest cell needs 49 GB while it writes a")),
        (1e12, (Kind.WARNING, "1,000 GB are free; 25 cells at a time and the policies of the o")),
        (2.59e12, (Kind.WARNING, "2,590 GB are free; 25 cells at a time and the policies of the")),
        (2.60e12, None),
    ],
)
def test_a_disk_without_space_for_checkpoints_is_reported(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    free: float,
    expected: tuple[Kind, str] | None,
) -> None:
    """By hand: two checkpoints of 16 bytes per parameter are 49 GB for 1.54e9 parameters. For 18
    cells of 1.54e9 and 7 of 7.62e9 parameters at a time, they are 2,594 GB."""
    set_free_space(monkeypatch, free)
    found = [(finding.kind, finding.line) for finding in of_paper()]
    assert len(found) == (expected is not None)
    for (kind, line), (expected_kind, words) in zip(found, [expected], strict=False):  # type: ignore[misc]
        assert kind == expected_kind
        assert line.removeprefix("results/paper: ").startswith(words)


def test_fewer_jobs_at_a_time_need_less_of_the_disk(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: one cell of 7.62e9 parameters is 244 GB, and the policies of the others are 294."""
    profile = project / "slurm" / "config.yaml"
    profile.write_text(profile.read_text().replace("\njobs: 200\n", "\njobs: 1\n"))
    set_free_space(monkeypatch, 530e9)
    (finding,) = of_paper()
    assert "1 cells at a time and the policies of the others need 538 GB" in finding.line
    set_free_space(monkeypatch, 540e9)
    assert of_paper() == []


def test_a_checkpoint_of_other_ranks_is_reported(project: Path) -> None:
    experiment = Experiment.load("paper")
    checkpoint = experiment.checkpoint(next(iter(experiment.cells)))
    shard = checkpoint / "global_step_60" / "actor" / "model_world_size_4_rank_0.pt"
    shard.parent.mkdir(parents=True)
    shard.touch()
    (checkpoint / "latest_checkpointed_iteration.txt").write_text("60")
    (finding,) = of_paper()
    assert finding.kind is Kind.WARNING
    assert "written by 4 ranks; 8 ranks cannot read it" in finding.line
    assert of_paper(verl={"ranks_per_node": 4})[0].line.count("verl.ranks_per_node = 4") == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mem_mb", "500000 * attempt"),
        ("slurm_partition", "'a' if attempt == 1 else 'b'"),
        ("gres", "f'gpu:h800:{8 if attempt else 4}'"),
    ],
)
def test_an_expression_is_noted_and_not_refused(project: Path, key: str, value: str) -> None:
    slurm_world.edit_profile(project, "set-resources", "train", **{key: value})
    problems, notes = check("paper")
    assert problems == []
    line = f"slurm/config.yaml: set-resources.train.{key} = {value!r} is an expression"
    assert any(note.startswith(line) for note in notes)


def test_a_missing_image_is_reported(project: Path) -> None:
    problems, notes = check("paper", deployment="apptainer")
    assert [(finding.kind, finding.line.split(":")[0]) for finding in problems] == [
        (Kind.ERROR, "envs/rspo.sif")
    ]
    assert any("jobs use the environment of apptainer" in note for note in notes)


def test_what_verl_refuses_is_reported(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "check_configs", lambda experiment: ConfigCheck(["no flash-attn"]))
    assert of_paper() == [Finding(Kind.ERROR, "no flash-attn")]
    assert of_paper("sample") == []


def test_problems_that_do_not_fit_a_model_are_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as both exist, for each pair that a job uses."""
    slurm_world.edit_profile(project, "set-resources", "score", gres=None)
    tiny = {"training": {"validation": {"every": None}}}
    assert check("tiny", **tiny)[0] == []
    slurm_run.make_inputs(Experiment.load("tiny"))
    assert check("tiny", **tiny)[0] == []
    problems, _ = check("tiny", **tiny, sampling={"max_response_tokens": 1000})
    assert [finding.kind for finding in problems] == [Kind.ERROR, Kind.ERROR]
    for finding, data_set in zip(problems, ("train", "linear"), strict=True):
        folder = "results/tiny/cells/small--base/policy"
        assert finding.line.startswith(f"small on {data_set}: {folder}/config.json: ")
        assert "max_position_embeddings = " in finding.line
