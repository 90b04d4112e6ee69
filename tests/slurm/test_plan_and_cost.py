"""What a run will request and what it used: `rspo plan` and `rspo cost`, without a cluster."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
import snakemake.cli  # noqa: F401  # looks for a shell, which some tests hide

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.provenance import provenance_path
from rspo.cost import write_cost_table
from rspo.slurm.plan import disk_bytes, plan, text
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


def test_the_paper_is_3200_gpu_hours_of_training(here: Path) -> None:
    found = plan(paper_scale.load(here))
    assert found.training.hours == pytest.approx([16] * 25, rel=1e-3)
    assert (found.training.gpus, found.training_jobs) == (8, 25)
    rows = [line.split() for line in text(paper_scale.load(here)).splitlines()]
    assert ["training", "25", "8", "3,200", "16", "h"] in rows


def test_hours_of_a_cell_depend_on_its_steps(here: Path) -> None:
    work = plan(paper_scale.load(here, training={"steps": 58}))
    assert work.training.gpus == 8
    assert work.training.hours == pytest.approx([1.6] * 25, rel=1e-3)


def test_a_time_limit_makes_several_jobs_of_a_cell(here: Path) -> None:
    profile = here / "slurm" / "config.yaml"
    profile.write_text(profile.read_text().replace("runtime: 24h", "runtime: 4h"))
    assert plan(paper_scale.load(here)).training_jobs == 25 * 4
    assert "training takes 100 jobs" in text(paper_scale.load(here))


@pytest.mark.parametrize(
    ("problems", "standard", "contamination_free"),
    [
        (None, 30 + 83 + 500 + 272 + 675, 30 + 140),
        (100, 30 + 83 + 100 + 100 + 100, 30 + 100),  # of each benchmark, as in a trial
    ],
)
def test_scoring_takes_what_the_judge_needs_to_read_every_response(
    here: Path, problems: int | None, standard: int, contamination_free: int
) -> None:
    """By hand: 64 responses of 3,072 tokens to each problem, for 27 and for 8 policies, at 50,000
    tokens a second, and two minutes to load the judge."""
    found = plan(paper_scale.load(here, evaluation={"problems": problems})).scoring
    assert found.gpus == 1
    each = [64 * 3072 * n / 50000 / 3600 + 1 / 30 for n in (contamination_free, standard)]
    assert sorted(found.known_hours) == pytest.approx([each[0]] * 8 + [each[1]] * 27)


def test_the_tiny_scale_needs_no_gpu_and_has_no_estimate(here: Path) -> None:
    shutil.copytree(ROOT / "config", here / "config")
    said = text(Experiment.load("tiny"))
    assert ["training", "42", "0", "?"] in [line.split() for line in said.splitlines()]
    assert "set models.<name>.expected" in said
    assert "disk" not in said


def test_disk_is_what_policies_checkpoints_and_texts_take(here: Path) -> None:
    """By hand: 18 cells of 1.54e9 parameters and 7 of 7.62e9, four bytes each; every response of
    3,072 tokens at four bytes, 64 to each of 1,560 problems for 27 policies and 170 for 8."""
    policies = 4 * (18 * 1.54e9 + 7 * 7.62e9)
    responses = 64 * (27 * (30 + 83 + 500 + 272 + 675) + 8 * (30 + 140))
    expected = (policies + 4 * 3072 * responses, 2 * 16 * 7.62e9)
    assert disk_bytes(paper_scale.load(here)) == pytest.approx(expected)


def test_existing_files_are_not_planned_again(here: Path) -> None:
    experiment = paper_scale.load(here, evaluation={"block": 32})
    before = plan(experiment)
    name = next(iter(experiment.cells))
    make_samples(experiment, name)
    found = plan(experiment)
    assert (found.training.number, found.sampling.number) == (24, 2 * (27 + 8) - 2)
    assert (before.others.number, found.others.number) == (44, 44)  # curves are not there yet
    experiment.samples(name, "standard", 0).unlink()
    found = plan(experiment)
    assert found.sampling.number == 2 * (27 + 8) - 1
    assert sum(found.sampling.known_hours) < sum(before.sampling.known_hours)


def make_samples(experiment: Experiment, name: str) -> None:
    """An empty policy and log with samples on the suite `standard`."""
    experiment.policy(name).mkdir(parents=True)
    experiment.training_log(name).touch()
    step = steps.train(experiment, name)
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
    before = plan(experiment)
    changed = paper_scale.load(here, training={"ppo_clip": 0.1})
    found = plan(changed)
    assert (found.training.number, found.sampling.number) == (
        before.training.number + 1,
        before.sampling.number + 1,
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("runtime: 22h", "runtime: 1d12h", "set-resources.sample.runtime = '1d12h'; allowed"),
        ('"gpu:h800:8"', '"h800:8"', "set-resources.train.gres = 'h800:8'; allowed"),
        ('"gpu:h800:8"', '"gpu:h800-80:8"', "write --gpus-per-node=h800-80:8 in slurm_"),
        ("mem_mb: 64000", 'mem_mb: "64 GB"', "mem_mb = '64 GB'; allowed: an integer"),
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
        ("jobs: 200", "jobs: many", "jobs = 'many'; allowed: an integer"),
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


def test_usage_of_a_killed_process_is_kept(tmp_path: Path) -> None:
    progress = Progress(tmp_path, 0, 4)
    assert progress.earlier == []
    progress.report(4, {})
    (before,) = usage_before(tmp_path)
    assert before.wall_seconds > 0
    again = Progress(tmp_path, 2, 4)
    again.report(4, {})
    assert [usage.process for usage in usage_before(tmp_path)] == [before.process] * 2
