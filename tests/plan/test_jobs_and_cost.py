"""What a run will request and what it used: `rspo plan` and `rspo cost`, without a cluster."""

import csv
import json
import re
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
import snakemake.cli  # noqa: F401  # looks for a shell, which some tests hide

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.pipeline import tasks
from rspo.pipeline.cost import write_cost_table
from rspo.pipeline.provenance import provenance_path
from rspo.plan.jobs import Job, disk_bytes, hours_of, jobs, text
from rspo.slurm.profile import read_profile
from rspo.training.progress import Progress, usage_before
from tests.support import ROOT, paper_scale, tiny_world


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the shipped profile, without SLURM."""
    shutil.copytree(ROOT / "slurm", tmp_path / "slurm")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # SLURM's commands may be installed here
    return tmp_path


LARGE = "qwen2.5-math-7b"


def trainings(experiment: Experiment) -> list[Job]:
    return [job for job in jobs(experiment) if job.rule == "train"]


def test_hours_of_a_cell_are_those_of_the_formula(here: Path) -> None:
    """By hand, for 7B at n = 16: 2,048 responses of 700 tokens after prompts of 100, on 8 GPUs.

    FLOPs for each parameter and token: 2, and 8 for half to all responses.
    """
    job = next(job for job in trainings(paper_scale.load(here)) if job.policy.startswith(LARGE))
    expected = []
    for engine, response, left, used, kept, update, constant, billion, idle, others in (
        (0.0015, 4e-6, 0.05, 0.41, 0.5, 0.1, 0.5, 0.17, 1, 1.03),
        (0.0036, 34e-6, 0.55, 0.22, 1, 0.5, 1.5, 0.34, 5, 1.1),
    ):
        sampling = 3072 * (engine + 15.2312e9 / 3.35e12)
        sampling += 256 * 700 * (response + 15.2312e9 / 989e12)
        verification = left * 256 * 800 / 50000
        passes = 256 * 800 * 7.6156e9 * kept * (2 + 8) / (989e12 * used)
        step = sampling + verification + passes + 8 * update + constant + 7.6156 * billion + idle
        expected.append(580 * step * others / 3600)
    assert job.gpus == 8
    assert job.hours == pytest.approx(expected, rel=1e-3)


def test_a_training_has_the_steps_of_its_variant(here: Path) -> None:
    """The variant `pilot` has 60 steps instead of 580, and nothing else that takes time."""
    pilot_cell = {"model": LARGE, "objective": "policy_gradient", "n": 16, "variant": "pilot"}
    experiment = paper_scale.load(here, grid={"not_evaluated": {"cells": [pilot_cell]}})
    hours = {job.policy: job.hours for job in trainings(experiment)}
    whole = hours[f"{LARGE}--policy-gradient--k1--n16--s0"]
    pilot = hours[f"{LARGE}--policy-gradient--k1--n16--pilot--s0"]
    assert whole is not None
    assert pilot == pytest.approx(whole * 60 / 580)


def test_scoring_takes_what_the_judge_needs_to_read_every_response(here: Path) -> None:
    """By hand: 64 responses of 700 to 3,072 tokens to each problem, for 27 and for 8 policies, at
    50,000 tokens a second, and two minutes to load the judge."""
    standard, contamination_free = 30 + 83 + 500 + 272 + 675, 30 + 140
    work = jobs(paper_scale.load(here))
    assert {job.gpus for job in work if job.rule == "score"} == {1}
    found = hours_of(work, "score")
    for number, tokens in enumerate((700, 3072)):
        few, many = (
            64 * tokens * n / 50000 / 3600 + 1 / 30 for n in (contamination_free, standard)
        )
        assert sorted(one[number] for one in found) == pytest.approx([few] * 8 + [many] * 27)


def test_the_tiny_scale_needs_no_gpu_and_has_no_estimate(here: Path) -> None:
    shutil.copytree(ROOT / "config", here / "config")
    said = text(Experiment.load("tiny"))
    assert ["training", "45", "0", "?"] in [line.split() for line in said.splitlines()]
    assert "set verl.device: cuda and models.<name>.parameters" in said
    assert "disk" not in said


def test_disk_is_what_policies_checkpoints_and_texts_take(here: Path) -> None:
    """By hand: 18 cells of 1.54e9 parameters and 7 of 7.62e9, four bytes each; every response of
    3,072 tokens at four bytes, 64 to each of 1,560 problems for 27 policies and 170 for 8."""
    policies = 4 * (18 * 1.5437e9 + 7 * 7.6156e9)
    responses = 64 * (27 * (30 + 83 + 500 + 272 + 675) + 8 * (30 + 140))
    expected = (policies + 4 * 3072 * responses, 2 * 16 * 7.6156e9)
    assert disk_bytes(paper_scale.load(here)) == pytest.approx(expected, rel=1e-3)


def numbers(experiment: Experiment) -> Counter[str]:
    return Counter(job.rule for job in jobs(experiment))


def test_existing_files_are_not_planned_again(here: Path) -> None:
    experiment = paper_scale.load(here, evaluation={"block": 32})
    before = jobs(experiment)
    name = next(iter(experiment.cells))
    make_samples(experiment, name)
    found = numbers(experiment)
    assert (found["train"], found["sample"]) == (24, 2 * (27 + 8) - 2)
    experiment.files.samples(name, "standard", 0).unlink()
    after = jobs(experiment)
    assert numbers(experiment)["sample"] == 2 * (27 + 8) - 1
    assert (sum(hours_of(after, "sample")) < sum(hours_of(before, "sample"))).all()


def make_samples(experiment: Experiment, name: str) -> None:
    """An empty policy and log with samples on the suite `standard`."""
    experiment.files.policy(name).mkdir(parents=True)
    experiment.files.training_log(name).touch()
    step = tasks.train(experiment, name)
    for path in step.outputs:
        inputs = {str(source): "made" for source in step.input_files}
        note = {"file": str(path), "settings": step.settings, "digest": "made", "bytes": 0}
        provenance_path(path).write_text(json.dumps(note | {"inputs": inputs}))
    for path in experiment.sample_files(name, "standard"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_a_cell_of_other_settings_is_planned_again_with_its_evaluation(here: Path) -> None:
    experiment = paper_scale.load(here)
    name = "qwen2.5-math-1.5b--rspo-pass--k2--n16--s0"
    make_samples(experiment, name)
    before = numbers(experiment)
    found = numbers(paper_scale.load(here, training={"ppo_clip": 0.1}))
    assert found == before + Counter({"train": 1, "sample": 1})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("runtime: 22h", "runtime: 1d12h", "set-resources.sample.runtime = '1d12h'; allowed"),
        ('"gpu:h800:8"', '"h800:8"', "set-resources.train.gres = 'h800:8'; allowed"),
        ('"gpu:h800:8"', '"gpu:h800-80:8"', "write --gpus-per-node=h800-80:8 in slurm_"),
        ('"gpu:h800:8"', '"wildcards.cell"', "allowed: a value that is the same for every job"),
        ("executor: slurm", "executor: [", "not YAML"),
        # Snakemake would silently ignore these.
        ("judge_server: 0", "licence: 1", "licence = 1: no such resource; allowed: "),
        ("mem_mb: 32000", "mem_mb: [1]", "resources.mem_mb = [1]; allowed: a number or a string"),
        ("  train:", "  trian:", "set-resources.trian: no such rule; did you mean train?"),
        (
            "mem_mb: 500000",
            "mem_bm: 500000",
            "set-resources.train.mem_bm = 500000: no such resource; did you mean mem_mb?",
        ),
        ("slurm-patient\n", "slrum\n", "executor = 'slrum'; allowed: slurm-patient, slurm"),
        # Settings of the executor plugin that is not used.
        (
            "slurm-requeue: *requeue",
            "slurm-qos: long",
            "slurm-qos = 'long' has no effect with executor: slurm-patient, which reads "
            "slurm-patient-qos: give both the same value, or remove slurm-qos",
        ),
        ("*evaluation", "[1, 2]", "set-resources.score = [1, 2]; allowed: keys and values"),
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
    folder = experiment.files.folder(cell)
    (folder / "samples").mkdir(parents=True)
    note = json.dumps({"processes": [first, second]})
    (folder / "policy.provenance.json").write_text(note)
    (folder / "training.jsonl.provenance.json").write_text(note)  # the same work
    for benchmark in ("linear", "divide"):
        path = folder / "samples" / f"{benchmark}.parquet.provenance.json"
        path.write_text(json.dumps({"processes": [first]}))
    write_cost_table(experiment)
    with (experiment.files.results / "tables" / "cost.csv").open() as stream:
        rows = list(csv.reader(stream))
    assert rows == [
        ["policy", "step", "wall_seconds", "cpu_seconds", "gpu_seconds"],
        [cell, "train", "15.0", "18.0", "120.0"],
        [cell, "sample", "20.0", "18.0", "160.0"],
    ]


def test_usage_of_a_killed_process_is_kept(tmp_path: Path) -> None:
    progress = Progress(tmp_path, 0, 4)
    assert progress.earlier == []
    time.sleep(0.02)  # seconds are rounded to hundredths
    progress.report(4, {})
    (before,) = usage_before(tmp_path)
    assert before.wall_seconds > 0
    again = Progress(tmp_path, 2, 4)
    again.report(4, {})
    assert [usage.process for usage in usage_before(tmp_path)] == [before.process] * 2
