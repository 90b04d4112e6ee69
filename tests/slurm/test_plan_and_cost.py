"""What a run will request and what it used: `rspo plan` and `rspo cost`, without a cluster."""

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import snakemake.cli  # noqa: F401  # looks for a shell, which some tests hide

from rspo.cli import main
from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.provenance import provenance_path
from rspo.cost import write_cost_table
from rspo.slurm.cluster import time_limit
from rspo.slurm.plan import plan, text
from rspo.slurm.profile import read_classes, read_profile
from rspo.training.progress import Progress, usage_before
from tests.support import ROOT, paper_scale, tiny_world


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the shipped profile, without SLURM."""
    shutil.copytree(ROOT / "slurm", tmp_path / "slurm")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # SLURM's commands may be installed here
    return tmp_path


def test_the_paper_is_3200_gpu_hours_of_training(here: Path) -> None:
    found = plan(paper_scale.load(here))
    assert found.training.number == 25
    assert found.training.hours == pytest.approx([16] * 25, rel=1e-3)
    assert found.training.gpus == 8
    assert found.training_jobs == 25
    assert "25 cells on 8 GPUs: 3,200 GPU-hours, 16 h the longest" in text(paper_scale.load(here))


def test_a_time_limit_makes_several_jobs_of_a_cell(here: Path) -> None:
    profile = here / "slurm" / "config.yaml"
    shipped = profile.read_text()
    assert shipped.count("runtime: 24h") == 2
    profile.write_text(shipped.replace("runtime: 24h", "runtime: 4h"))
    assert plan(paper_scale.load(here)).training_jobs == 25 * 4


@pytest.mark.parametrize(
    ("limit", "said"), [("5", "of at most 5m"), ("90", "of at most 1.5h"), ("null", "longest")]
)
def test_a_time_limit_is_printed_in_hours_or_minutes(here: Path, limit: str, said: str) -> None:
    profile = here / "slurm" / "config.yaml"
    profile.write_text(profile.read_text().replace("runtime: 24h", f"runtime: {limit}"))
    (line,) = [one for one in text(paper_scale.load(here)).splitlines() if "training  " in one]
    assert line.endswith(said)


@pytest.mark.parametrize(
    ("settings", "gpus", "hours"),
    [
        ({"training": {"steps": 58}}, 8, 1.6),
        ({"verl": {"nodes": 2}}, 16, 8),  # the same GPU-hours, at best
    ],
)
def test_hours_of_a_cell_depend_on_steps_and_nodes(
    here: Path, settings: dict[str, dict[str, int]], gpus: int, hours: float
) -> None:
    work = plan(paper_scale.load(here, **settings))
    assert work.training.gpus == gpus
    assert work.training.hours == pytest.approx([hours] * 25, rel=1e-3)


def test_scoring_takes_what_the_judge_needs_to_read_every_response(here: Path) -> None:
    """By hand: 64 responses of 3,072 tokens to each of 1,560 problems for 27 policies and of 170
    for 8, at 50,000 tokens a second."""
    found = plan(paper_scale.load(here))
    assert (found.scoring.number, found.scoring.gpus) == (35, 1)
    hours = 64 * 3072 / 50000 / 3600
    assert found.scoring.hours is not None
    each = [hours * 170] * 8 + [hours * 1560] * 27
    assert sorted(found.scoring.hours) == pytest.approx(each)
    assert (
        "scoring          35 jobs on 1 GPU: at most 47 GPU-hours, 1.7 h the longest (50,000 "
        "tokens/s, not measured), and 1.2 GPU-hours to load the judge (2 minutes each, not "
        "measured)\n"
    ) in text(paper_scale.load(here))


def test_a_trial_of_some_problems_is_planned_with_these(here: Path) -> None:
    """100 of each benchmark: AIME2024, AMC and AIME2025 have 30, 83 and 30."""
    found = plan(paper_scale.load(here, evaluation={"problems": 100}))
    hours = 64 * 3072 / 50000 / 3600
    each = [hours * 130] * 8 + [hours * 413] * 27
    assert sorted(found.scoring.hours or []) == pytest.approx(each)


@pytest.mark.parametrize(
    "settings", [{"verifier": "rules"}, {"xverify": {"url": "http://judge:8000"}}]
)
def test_scoring_without_a_judge_of_its_own_has_no_estimate(
    here: Path, settings: dict[str, Any]
) -> None:
    said = text(paper_scale.load(here, **settings))
    assert "scoring          35 jobs on CPUs: duration unknown\n" in said


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_time_on_several_nodes_is_called_a_lower_bound(here: Path, nodes: int) -> None:
    said = text(paper_scale.load(here, verl={"nodes": nodes}))
    assert ("lower bound: as if 2 nodes were 2 times as fast as one" in said) == (nodes == 2)


def test_the_tiny_scale_needs_no_gpu(here: Path) -> None:
    shutil.copytree(ROOT / "config", here / "config")
    said = text(Experiment.load("tiny"))
    assert "training         25 cells on CPUs" in said
    assert "GPU" not in said


def test_disk_is_what_policies_checkpoints_and_texts_take(here: Path) -> None:
    """By hand: 18 cells of 1.54e9 parameters and 7 of 7.62e9, four bytes each; every response of
    3,072 tokens at four bytes, 64 to each of 1,560 problems for 27 policies and 170 for 8."""
    found = plan(paper_scale.load(here))
    policies = 4 * (18 * 1.54e9 + 7 * 7.62e9)
    responses = 64 * (27 * (30 + 83 + 500 + 272 + 675) + 8 * (30 + 140))
    assert found.policy_bytes == pytest.approx(policies + 4 * 3072 * responses)
    assert found.checkpoint_bytes == pytest.approx(2 * 16 * 7.62e9)


def test_existing_files_are_not_planned_again(here: Path) -> None:
    experiment = paper_scale.load(here, evaluation={"block": 32})
    before = plan(experiment)
    name = next(iter(experiment.cells))
    make_samples(experiment, name)
    found = plan(experiment)
    assert (found.training.number, found.sampling.number) == (24, 2 * (27 + 8) - 2)
    experiment.samples(name, "standard", 0).unlink()
    found = plan(experiment)
    assert found.sampling.number == 2 * (27 + 8) - 1
    assert before.sampling.hours is not None
    assert found.sampling.hours is not None
    assert sum(found.sampling.hours) < sum(before.sampling.hours)


def make_samples(experiment: Experiment, name: str) -> None:
    """An empty policy and log with samples on the suite `standard`."""
    experiment.policy(name).mkdir(parents=True)
    experiment.training_log(name).touch()
    step = steps.train(experiment, name)
    note = {"settings": step.settings, "digest": "made", "bytes": 0}
    for path in step.outputs:
        inputs = {str(source): "made" for source in step.input_files}
        provenance_path(path).write_text(json.dumps(note | {"inputs": inputs}))
    for path in experiment.sample_files(name, "standard"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_a_cell_of_other_settings_is_planned_again_with_its_evaluation(here: Path) -> None:
    experiment = paper_scale.load(here)
    name = "qwen2.5-math-1.5b--rspo-pass--k2--n16--s0"
    make_samples(experiment, name)
    before = plan(experiment)
    changed = paper_scale.load(here, training={"ppo_clip": 0.1})
    found = plan(changed)
    assert (found.training.number, found.sampling.number) == (
        before.training.number + 1,
        before.sampling.number + 1,
    )


def test_without_an_estimate_only_jobs_are_counted(here: Path) -> None:
    experiment = tiny_world.load(here)
    found = plan(experiment)
    assert (found.training.number, found.sampling.number, found.training.hours) == (
        25,
        27 + 8,
        None,
    )
    assert "duration unknown (set models.<name>.expected)" in text(experiment)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("runtime: 22h", "runtime: 1d12h", "set-resources.sample.runtime = '1d12h'; allowed"),
        ('"gpu:h800:8"', '"h800:8"', "set-resources.train.gres = 'h800:8'; allowed"),
        ('"gpu:h800:8"', '"gpu:h800-80:8"', "write --gpus-per-node=h800-80:8 in slurm_"),
        ("mem_mb: 64000", 'mem_mb: "64 GB"', "mem_mb = '64 GB'; allowed: an integer"),
        ("executor: slurm", "executor: [", "not YAML"),
        # Snakemake would silently ignore these.
        ("train: &tr", "trian: &tr", "set-resources.trian: no such rule; did you mean train?"),
        (
            "mem_mb: 500000",
            "mem_bm: 500000",
            "set-resources.train.mem_bm = 500000: no such resource; did you mean mem_mb?",
        ),
        (
            "runtime: 4h",
            "runtme: 4h",
            "default-resources.runtme = '4h': no such resource; did you mean runtime?",
        ),
        ("slurm-patient\n", "slrum\n", "executor = 'slrum'; allowed: slurm-patient, slurm"),
        # Settings of the executor plugin that is not used.
        (
            "slurm-requeue: *requeue",
            "slurm-qos: long",
            "slurm-qos = 'long' has no effect with executor: slurm-patient, which reads "
            "slurm-patient-qos: give both the same value, or remove slurm-qos",
        ),
        (
            "executor: slurm-patient",
            "executor: slurm\nslurm-patient-qos: long",
            "slurm-patient-qos = 'long' has no effect with executor: slurm, which reads slurm-qos",
        ),
        ("retries: 2", "retrys: 2", "retrys = 2: snakemake has no such option; did you mean retr"),
        ("retries: 2", "retries: two", "retries = 'two'; allowed: an integer"),
        ("jobs: 200", "jobs: many", "jobs = 'many'; allowed: an integer"),
        ("*evaluation", "[1, 2]", "set-resources.score = [1, 2]; allowed: keys and values"),
        ("mem_mb: 32000", "mem_mb: [1]", "resources.mem_mb = [1]; allowed: a number or a string"),
        ("mem_mb: 32000", "reservation: me", "; sbatch's options go in slurm_extra"),
        ("--open-mode=append'\"", "--comment=it's a'\"", "slurm_extra = "),
    ],
)
def test_an_error_in_the_profile_is_one_line(here: Path, old: str, new: str, message: str) -> None:
    shutil.copytree(ROOT / "workflow", here / "workflow")
    profile = here / "slurm" / "config.yaml"
    assert old in profile.read_text()
    profile.write_text(profile.read_text().replace(old, new))
    with pytest.raises(InputError, match=re.escape(message)) as raised:
        read_profile()
    assert str(raised.value).startswith("slurm/config.yaml: ")
    assert "\n" not in str(raised.value)


def test_names_that_the_user_chooses_are_accepted(here: Path) -> None:
    """A resource that the profile limits; rules that no folder here names; as many jobs as fit."""
    profile = here / "slurm" / "config.yaml"
    text = profile.read_text().replace("judge_server: 0", "licence: 1")
    text = text.replace("train: &training", "drill: &training")
    profile.write_text(text.replace("jobs: 200", "jobs: unlimited\nresources: [licence=4]"))
    assert read_profile()[1]["drill"].gpus == 8


def test_a_run_accepts_expressions_if_the_names_are_known(here: Path) -> None:
    """Expressions, and lists of KEY=VALUE."""
    profile = here / "slurm" / "config.yaml"
    profile.write_text(
        "executor: slurm\n"
        "default-resources: [slurm_partition=cpu, mem_mb=1000]\n"
        "set-resources: {train: {mem_mb: 64000 * attempt}}\n"
    )
    train = {"slurm_partition": "cpu", "mem_mb": "64000 * attempt"}
    assert read_classes(profile)[1]["train"] == train
    profile.write_text("executor: slurm\ndefault-resources: [slurm_partion=cpu]\n")
    with pytest.raises(InputError, match="no such resource; did you mean slurm_partition"):
        read_classes(profile)


def test_gpus_are_read_as_the_plugin_reads_them(here: Path) -> None:
    profile = here / "slurm" / "config.yaml"
    text = profile.read_text().replace('gres: "gpu:h800:8"', "gpu: 8\n    gpu_model: h800")
    profile.write_text(text)
    train = read_profile()[1]["train"]
    assert (train.gpu_type, train.gpus) == ("h800", 8)
    assert "--gpus=h800:8" in train.options


def test_an_account_of_digits_is_a_name(here: Path) -> None:
    profile = here / "slurm" / "config.yaml"
    shipped = profile.read_text()
    assert "  #   slurm_account: my-account" in shipped
    profile.write_text(shipped.replace("  #   slurm_account: my-account", "  slurm_account: 12345"))
    assert "--account=12345" in read_profile()[1]["train"].options


def test_cost_sums_every_process_of_a_step_and_skips_missing_files(here: Path) -> None:
    experiment = tiny_world.load(here)
    cell = next(iter(experiment.cells))
    first = {"job": "7", "host": "n1", "process": 1}
    first |= {"wall_seconds": 10.0, "cpu_seconds": 9.0, "gpu_seconds": 80.0}
    second = first | {"job": "12", "host": "n2", "wall_seconds": 5.0, "gpu_seconds": 40.0}
    folder = experiment.folder(cell)
    (folder / "samples").mkdir(parents=True)
    note = json.dumps({"processes": [first, second]})
    (folder / "policy.provenance.json").write_text(note)
    (folder / "training.jsonl.provenance.json").write_text(note)  # the same work
    for benchmark in ("linear", "divide"):
        path = folder / "samples" / f"{benchmark}.parquet.provenance.json"
        path.write_text(json.dumps({"processes": [first]}))
    write_cost_table(experiment)
    with (experiment.results / "tables" / "cost.csv").open() as stream:
        rows = list(csv.reader(stream))
    assert rows == [
        ["policy", "step", "wall_seconds", "cpu_seconds", "gpu_seconds", "host", "jobs"],
        [cell, "train", "15.0", "18.0", "120.0", "n1 n2", "7 12"],
        [cell, "sample", "20.0", "18.0", "160.0", "n1", "7"],
    ]


def test_cost_without_results_writes_no_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "config", here / "config")
    assert main(["cost", "--scale", "paper"]) == 0
    assert capsys.readouterr().out == "scale paper has no results yet\n"
    assert not (here / "results").exists()


def test_usage_of_a_killed_process_is_kept(tmp_path: Path) -> None:
    progress = Progress(tmp_path, 0, 4)
    assert progress.earlier == []
    progress.report(4, {})
    (before,) = usage_before(tmp_path)
    assert before.wall_seconds > 0
    again = Progress(tmp_path, 2, 4)
    again.report(4, {})
    assert [usage.process for usage in usage_before(tmp_path)] == [before.process] * 2


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("2-00:00:00", 2880), ("4:00:00", 240), ("30:00", 30), ("1:30", 1.5), ("UNLIMITED", None)],
)
def test_time_limits_of_slurm_are_parsed(text: str, minutes: float | None) -> None:
    assert time_limit(text) == minutes
