"""The DAG as a user meets it, on a world of a few steps: Snakemake itself, in a fresh folder."""

import csv
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment, base_name
from rspo.core.files import digest
from rspo.pipeline import tasks
from rspo.pipeline.provenance import read_provenance
from rspo.pipeline.run import record
from rspo.pipeline.task import Task
from tests.support import ROOT, tiny_world
from tests.support.processes import wait_until
from tests.support.snakemake_project import (
    PROGRAMS,
    SMALL_WORLD,
    jobs,
    make_project,
    setting,
    snakemake,
    with_judge,
)

GRID = ("main", "scalability", "model_size", "contamination_free", "max_at_k", "grpo", "dropping")
# A `sitecustomize` that hides a package, as where it is not installed.
HIDE = """\
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name == {package!r} else find(name, *more)
"""
NO_GRID: dict[str, object] = dict.fromkeys(GRID)


@pytest.fixture(scope="module")
def planning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which nothing has run."""
    return make_project(tmp_path_factory.mktemp("planning"))


def with_evaluation(**settings: int) -> list[str]:
    """`SMALL_WORLD` with other settings of the evaluation."""
    return [*SMALL_WORLD, setting({"evaluation": settings})]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which the small world's fig_scalability was made."""
    folder = make_project(tmp_path_factory.mktemp("built"))
    done = snakemake(folder, "reports/fig_scalability.pdf", "--config", *SMALL_WORLD)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("scale", ["tiny", "paper"])
@pytest.mark.promise("snakemake all")
@pytest.mark.promise("snakemake -n all --config scale=paper")
def test_all_trains_the_cells_of_the_grid_and_evaluates_them_and_their_base_policies(
    planning: Path, scale: str
) -> None:
    plan = jobs(snakemake(planning, "-n", "all", "--config", f"scale={scale}"))
    experiment = Experiment.load(scale, root=ROOT)
    # At the tiny scale, eight cells have two more seeds, three cells time the dropping of
    # responses, and one has an objective without a k. Each seed of the small model has a base.
    trained = {"tiny": 25 + 2 * 8 + 3 + 1, "paper": 25}[scale]
    assert plan["train"] == len(experiment.cells) == trained
    assert plan["pretrain"] == {"tiny": 4, "paper": 2}[scale]
    assert plan["prepare"] == 9
    # One job for all benchmarks of a suite and the samples of a block.
    evaluated = 27 + 8
    if scale == "tiny":
        evaluated += 2 * 8 + 2 * 7 + 1 + 2 * 2
    assert plan["sample"] == plan["score"] == len(experiment.blocks()) * evaluated
    assert plan["curves"] == evaluated
    without_target = jobs(snakemake(planning, "-n", "--config", f"scale={scale}"))
    assert without_target == {"default": plan.pop("all")} | plan


@pytest.mark.promise("snakemake reports/fig_scalability.pdf")
def test_one_figure_makes_only_what_it_needs(built: Path) -> None:
    """`built` is a project after this command, with smaller settings."""
    cells = {f"small--rspo-pass--k4--n{n}--s0" for n in (4, 8, 16, 32)}
    made = {path.parent.name for path in built.glob("results/tiny/cells/*/policy")}
    assert made == cells | {"small--base"}
    files = {path.stem for path in built.glob("reports/*") if path.suffix in (".pdf", ".csv")}
    assert files == {"fig_scalability"}


@pytest.mark.promise(
    "snakemake all --forcerun results/tiny/cells/small--rspo-pass--k4--n16--s0/policy"
)
def test_one_cell_again_makes_what_depends_on_it(built: Path, promised: list[str]) -> None:
    """With the same settings and seed to the same files, as a figure shows."""
    _, option, policy = promised
    cell = Path(policy).parent.name
    files = built.glob("results/tiny/cells/*/**/*.parquet")
    before = {path: path.stat().st_mtime_ns for path in [built / policy, *files]}
    numbers = (built / "reports/fig_scalability.csv").read_bytes()
    target = "reports/fig_scalability.pdf"
    done = snakemake(built, target, option, policy, "--config", *SMALL_WORLD)
    assert done.returncode == 0, done.stderr
    again = {path for path, time in before.items() if path.stat().st_mtime_ns != time}
    kinds = {path.relative_to(built / Path(policy).parent).parts[0] for path in again}
    assert kinds == {"policy", "samples", "scores", "curves"}
    assert {path.relative_to(built).parts[3] for path in again} == {cell}
    assert (built / "reports/fig_scalability.csv").read_bytes() == numbers


@pytest.mark.promise("snakemake all --config seeds=5")
def test_more_seeds_add_cells(planning: Path, promised: list[str]) -> None:
    """By hand: 25 cells of the paper, 3 for the time of dropping and 1 without a k, five seeds."""
    assert jobs(snakemake(planning, "-n", *promised))["train"] == (25 + 3 + 1) * 5


@pytest.mark.promise("snakemake all --config results=trial set=training.steps=20")
def test_a_trial_writes_into_a_folder_of_its_own(planning: Path, promised: list[str]) -> None:
    done = snakemake(planning, "-n", *promised, "--quiet", "host")
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^ +output: (.*)$", done.stdout + done.stderr, flags=re.MULTILINE)
    outputs = [path for line in lines for path in line.split(", ")]
    assert len(outputs) > 200
    assert [path for path in outputs if not path.startswith("trial/")] == []


def test_snakemakes_linter_misses_only_an_image(planning: Path) -> None:
    """`make` installs the software (envs/README.md)."""
    done = snakemake(planning, "--lint")
    found = {*re.findall(r"^    \* (.*)", done.stderr, re.M)}
    assert found == {"Specify a conda environment or container for each rule.:"}


@pytest.mark.parametrize(
    ("study", "cells", "deciding"), [("peers", 55, 14), ("open_choices", 28, 0)]
)
def test_only_the_figure_of_a_study_needs_its_cells(
    planning: Path, study: str, cells: int, deciding: int
) -> None:
    """Five seeds of each, each with a base policy, and those that decide its learning rates."""
    plan = jobs(snakemake(planning, "-n", f"reports/fig_{study}.pdf"))
    assert plan["train"] == 5 * cells + deciding
    assert plan["score"] == 5 * cells + 5
    assert plan["pretrain"] == 5
    assert plan["study"] == plan["figure"] == 1
    everything = snakemake(planning, "-n", "all")
    assert "study" not in jobs(everything)
    assert not {"updates-8", "lr-same"} & {*re.split("--|\n| ", everything.stdout)}


def test_a_comparison_of_ones_own_needs_no_other_change(planning: Path) -> None:
    cell = {"model": "small", "objective": "rspo_pass_at_k_plug_in", "k": 4, "n": 8}
    mine = {"suite": "contamination_free", "cells": [cell]}
    config = ["--config", setting({"grid": {"my-sweep": mine}})]
    plan = jobs(snakemake(planning, "-n", "reports/fig_my-sweep.pdf", *config))
    assert plan.pop("total") == 13
    assert plan == {
        "prepare": 4,  # the validation set among them, which a training may read
        "pretrain": 1,
        "train": 1,
        "sample": 2,
        "score": 2,
        "curves": 2,
        "figure": 1,
    }
    assert jobs(snakemake(planning, "-n", "all", *config))["train"] == 46


OWN_FILE = "{label: Mine, file: gone.csv, problem: question, answer: gold}"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("sedes=3", "unknown key sedes = 3; did you mean seeds?"),
        ("set=seeds", "--config set seeds: expected KEY=VALUE, such as training.steps=50"),
        ("set=seeds=2 'a", '--config set="seeds=2 \'a": No closing quotation'),
        ("grid={main: null}", "give it as set=\"grid='{...}'\""),
        ("results=", "results is empty; expected a folder"),
        ("mirror=no/where", "mirror = no/where: no such folder"),
        (f"set=data.suites.own.mine='{OWN_FILE}'", "gone.csv: no such file"),
    ],
)
def test_a_typo_stops_before_anything_runs(planning: Path, config: str, message: str) -> None:
    done = snakemake(planning, "all", "--config", config)
    assert done.returncode != 0
    assert message in done.stderr
    assert not (planning / "results").exists()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("reports/fig_peer.pdf", "error: no figure 'fig_peer'; did you mean fig_peers? Allowed"),
        (
            "results/tiny/cells/small--rspo-pas--k4--n16--s0/policy",
            "error: no cell 'small--rspo-pas--k4--n16--s0' in config/tiny.yaml; `rspo status`",
        ),
    ],
)
def test_a_target_with_an_unknown_name_is_a_line(planning: Path, target: str, message: str) -> None:
    output = snakemake(planning, target).stderr.splitlines()
    assert output[-1].startswith(message)
    assert "Traceback" not in "".join(output)


def test_a_report_of_a_trial_run_is_in_its_own_folder(planning: Path) -> None:
    done = snakemake(planning, "reports/fig_main.pdf", "--config", "results=trial")
    assert done.returncode != 0
    message = "error: with results=trial, reports/fig_main.pdf is trial/reports/fig_main.pdf"
    assert done.stderr.splitlines()[-1] == message
    for folder in ("trial", "reports/trial"):
        inside = f"{folder}/reports/fig_main.pdf"
        plan = snakemake(planning, "-n", inside, "--config", f"results={folder}")
        assert jobs(plan)["figure"] == 1


def test_a_key_with_dots_changes_one_setting_of_a_section(built: Path) -> None:
    target = ["-n", "reports/fig_scalability.pdf", "--config", *SMALL_WORLD]
    assert jobs(snakemake(built, *target, "set=training.steps=3"))["train"] == 4
    plan = jobs(snakemake(built, *target, "set='evaluation.k=[1, 2]'"))
    assert (plan["curves"], plan.get("train")) == (5, None)


@pytest.fixture
def copied(built: Path, tmp_path: Path) -> Path:
    """A project with a copy of finished results, in which every output is older than its input."""
    folder = make_project(tmp_path / "project")
    for name in ("results", "reports"):
        shutil.copytree(built / name, folder / name)
    files = sorted(folder.glob("re[sp]*/**/*"), key=lambda file: file.stat().st_mtime, reverse=True)
    for seconds, file in enumerate(files):
        os.utime(file, (10**9 + seconds, 10**9 + seconds))
    return folder


def touch(folder: Path, *config: str) -> None:
    target = ["reports/fig_scalability.pdf", "--touch", "--config", *SMALL_WORLD, *config]
    done = snakemake(folder, *target)
    assert done.returncode == 0, done.stderr


@pytest.mark.promise("snakemake all --touch")
def test_copied_results_are_up_to_date_after_touch(copied: Path) -> None:
    target = ["-n", "reports/fig_scalability.pdf", "--config", *SMALL_WORLD]
    assert jobs(snakemake(copied, *target))["train"] == 4
    touch(copied)
    done = snakemake(copied, *target)
    assert "Nothing to be done" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("setting", "remade"),
    [
        ("set=training.steps=3", {"pretrain": 0, "train": 4, "sample": 4, "curves": 4}),
        ("set=evaluation.resamples=51", {"pretrain": 0, "train": 0, "sample": 0, "curves": 5}),
    ],
)
def test_touch_does_not_make_files_of_other_settings_current(
    copied: Path, setting: str, remade: dict[str, int]
) -> None:
    """Their provenance has their settings, whatever Snakemake's records say after --touch."""
    touch(copied, setting)
    target = ["-n", "reports/fig_scalability.pdf", "--config", *SMALL_WORLD, setting]
    plan = jobs(snakemake(copied, *target))
    assert {rule: plan.get(rule, 0) for rule in remade} == remade


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """A project at the paper's scale with files in place of the results that a cell depends on."""
    monkeypatch.chdir(make_project(tmp_path))
    experiment = Experiment.load("paper")
    cell = next(iter(experiment.cells))
    made = [
        *(tasks.prepare(experiment, name) for name in ("train", "validation")),
        tasks.policy_task(experiment, base_name(experiment.model_of(cell))),
        tasks.fetch_judge(experiment),
    ]
    for step in made:
        make(step)
    (experiment.files.results / "judge" / "ready").touch()
    make(tasks.train(experiment, cell))
    return experiment


def make(step: Task) -> None:
    for path in step.outputs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("") if path.suffix else path.mkdir(exist_ok=True)
        os.utime(path)
    record(step)


@pytest.mark.parametrize(
    ("remade", "plan"),
    [
        ("problems/validation.parquet", {}),
        ("judge/ready", {}),
        ("judge/prompt.py", {"judge": 1, "total": 1}),
        ("problems/train.parquet", {"train": 1, "total": 1}),
    ],
)
def test_a_cell_trains_again_for_its_problems_but_not_for_the_validation_or_the_stamp_of_the_judge(
    trained: Experiment, remade: str, plan: dict[str, int]
) -> None:
    policy = trained.files.policy(next(iter(trained.cells)))
    target = ["-n", str(policy), "--config", "scale=paper"]
    assert jobs(snakemake(Path.cwd(), *target)) == {}
    os.utime(trained.files.results / remade)
    assert jobs(snakemake(Path.cwd(), *target)) == plan


def test_a_policy_without_a_record_of_snakemake_trains_again_with_other_settings(
    trained: Experiment,
) -> None:
    """As one of a SLURM job that ended after its Snakemake was killed."""
    policy = str(trained.files.policy(next(iter(trained.cells))))
    done = snakemake(Path.cwd(), "-n", policy, "--config", "scale=paper", "set=training.steps=7")
    assert jobs(done) == {"train": 1, "total": 1}


def test_a_missing_policy_that_was_trained_again_is_made_before_what_depends_on_it(
    trained: Experiment,
) -> None:
    """As one whose next training was interrupted; a policy that was only removed is not missed."""
    cell = next(iter(trained.cells))
    suite = next(suite for policy, suite in trained.evaluations if policy == cell)
    for name in trained.benchmarks_of(suite):
        make(tasks.prepare(trained, name))
    samples, train = tasks.sample(trained, cell, suite, 0), tasks.train(trained, cell)
    make(samples)
    target = ["-n", str(samples.outputs[0]), "--config", "scale=paper"]
    policy = trained.files.policy(cell)
    shutil.rmtree(policy)
    assert jobs(snakemake(Path.cwd(), *target)) == {}
    policy.mkdir()
    (policy / "weights").write_text("others")
    record(train)
    shutil.rmtree(policy)
    assert jobs(snakemake(Path.cwd(), *target)) == {"sample": 1, "train": 1, "total": 2}


def test_what_was_made_from_another_version_of_an_older_input_is_made_again(
    trained: Experiment,
) -> None:
    """As after a policy was put back from a backup, with its time: Snakemake itself compares times.

    A damaged policy is another matter: its owner decides.
    """
    cell = next(iter(trained.cells))
    suite = next(suite for policy, suite in trained.evaluations if policy == cell)
    for name in trained.benchmarks_of(suite):
        make(tasks.prepare(trained, name))
    samples = tasks.sample(trained, cell, suite, 0)
    make(samples)
    target = ["-n", str(samples.outputs[0]), "--config", "scale=paper"]
    policy = trained.files.policy(cell)
    times = policy.stat()
    (policy / "weights").write_text("others")
    os.utime(policy, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert jobs(snakemake(Path.cwd(), *target)) == {}
    record(tasks.train(trained, cell))
    assert jobs(snakemake(Path.cwd(), *target)) == {"sample": 1, "total": 1}


def test_a_new_time_of_the_same_problems_trains_no_cell_again(built: Path) -> None:
    os.utime(built / "results" / "tiny" / "problems" / "train.parquet")
    done = snakemake(built, "-n", "reports/fig_scalability.pdf", "--config", *SMALL_WORLD)
    assert "Nothing to be done" in done.stdout + done.stderr


def test_reports_have_the_scale_that_ran_last(tmp_path: Path) -> None:
    """Two scales that differ in one number, switched back and forth."""
    folder = make_project(tmp_path / "project")
    shutil.copy(folder / "config" / "tiny.yaml", folder / "config" / "other.yaml")
    cell = {"model": "small", "objective": "policy_gradient", "n": 8}
    small = [
        *SMALL_WORLD,
        setting({"grid": NO_GRID | {"mine": {"suite": "standard", "cells": [cell]}}}),
    ]
    scales = {"tiny": small, "other": [*small, "scale=other", "set=evaluation.seed=1"]}
    drawn = {}
    for scale in ("tiny", "other", "tiny"):
        target = ["reports/fig_mine.pdf", "reports/claims.csv", "--config", *scales[scale]]
        done = snakemake(folder, *target)
        assert done.returncode == 0, done.stderr
        note = read_provenance(folder / "reports" / "fig_mine.csv")
        assert note["settings"]["scale"] == scale
        assert all(path.startswith(f"results/{scale}/") for path in note["inputs"])
        assert {
            row["scale"] for row in csv.DictReader((folder / "reports" / "claims.csv").open())
        } == {scale}
        numbers = (folder / "reports" / "fig_mine.csv").read_text()
        assert drawn.setdefault(scale, numbers) == numbers
    assert drawn["tiny"] != drawn["other"]


def test_a_policy_made_by_hand_with_other_settings_is_not_taken_for_the_papers(
    built: Path, tmp_path: Path
) -> None:
    """Snakemake's record of this cell has the settings that it has again in the end."""
    folder = shutil.copytree(built, tmp_path / "copy", symlinks=True)
    cell, numbers = "small--rspo-pass--k4--n8--s0", folder / "reports" / "fig_scalability.csv"
    policy, before = f"results/tiny/cells/{cell}/policy", numbers.read_bytes()
    training = tiny_world.OVERRIDES["training"] | {"steps": 3}
    changes = tiny_world.OVERRIDES | {"training": training}
    command = tiny_world.command("train", cell, "--force", **changes)
    subprocess.run(command, cwd=folder, check=True)
    by_hand = digest(folder / policy)
    done = snakemake(folder, "-n", policy, "--config", *SMALL_WORLD, "set=training.steps=3")
    assert "Nothing to be done" in done.stdout + done.stderr
    numbers.unlink()
    done = snakemake(folder, "reports/fig_scalability.pdf", "--config", *SMALL_WORLD)
    assert done.returncode == 0, done.stderr
    steps = f"training.steps: 3 -> {tiny_world.OVERRIDES['training']['steps']}"
    said = f"results again: {policy} was made with other settings ({steps}), and 3 more."
    assert said in done.stderr
    assert digest(folder / policy) == digest(built / policy) != by_hand
    assert numbers.read_bytes() == before


def test_jobs_call_the_rspo_of_the_python_that_runs_snakemake(tmp_path: Path) -> None:
    """Without an activated environment, and with another `rspo` first on the path."""
    folder = make_project(tmp_path / "project")
    other = tmp_path / "bin" / "rspo"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    target = "results/tiny/problems/linear.parquet"
    command = [str(PROGRAMS / "snakemake"), target, "--config", *SMALL_WORLD]
    environment = os.environ | {"PATH": f"{other.parent}:/usr/bin:/bin"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (folder / target).exists()


@pytest.mark.parametrize(
    ("package", "config", "needs"),
    [
        ("verl", ["--config", *SMALL_WORLD, "engine=verl"], "engine = 'verl'"),
        ("vllm", ["--config", *SMALL_WORLD, "sampler=vllm"], "sampler = 'vllm'"),
        (
            "vllm",
            with_judge(Path("judge"), "0" * 40, None),
            "verifier = 'xverify' without xverify.url",
        ),
    ],
)
def test_a_run_whose_last_step_misses_a_package_stops_before_its_first_job(
    tmp_path: Path, package: str, config: list[str], needs: str
) -> None:
    """The environment of `make setup`, with a setting that needs that of `make setup-verl`."""
    folder = make_project(tmp_path / "project")
    (tmp_path / "sitecustomize.py").write_text(HIDE.format(package=package))
    command = [str(PROGRAMS / "snakemake"), "reports/fig_scalability.pdf", *config]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{needs} needs the package {package}: `make setup-verl` installs it" in done.stderr
    assert not (folder / "results").exists()


def test_more_samples_add_blocks_and_keep_the_existing_ones(built: Path) -> None:
    """N from 8 to 16 in blocks of 8."""
    more = with_evaluation(samples=16)
    plan = jobs(snakemake(built, "-n", "reports/fig_scalability.pdf", "--config", *more))
    assert plan == {"sample": 5, "score": 5, "curves": 5, "figure": 1, "total": 16}


def test_an_input_that_is_damaged_when_a_run_starts_costs_no_result(built: Path) -> None:
    """A truncated table: found before the first job, or by the job that reads it."""
    problems = built / "results" / "tiny" / "problems" / "linear.parquet"
    target = "results/tiny/cells/small--base/samples/standard/0.parquet"
    whole, before = problems.read_bytes(), (built / target).read_bytes()
    problems.write_bytes(whole[:-100])
    message = "linear.parquet was damaged or changed after it was written; `rspo prepare linear "
    scores = target.replace("samples", "scores")  # the input of its input is damaged
    before_scores = (built / scores).read_bytes()
    for words in ([target, "--forcerun", target], [scores, "--forcerun", scores]):
        done = snakemake(built, *words, "--config", *SMALL_WORLD)
        assert done.returncode == 1
        assert done.stderr.count(message) == 1
    assert (built / target).read_bytes() == before
    assert (built / scores).read_bytes() == before_scores

    (built / target).unlink()
    done = snakemake(built, target, "--config", *SMALL_WORLD)
    assert done.returncode == 1
    assert message in done.stdout + done.stderr
    assert not (built / target).exists()
    assert not list((built / target).parent.glob(".*partial*"))
    table = "results/tiny/problems/linear.parquet"  # is made again in the same run
    again = snakemake(built, target, "--forcerun", table, "--config", *SMALL_WORLD)
    assert again.returncode == 0, again.stderr
    assert problems.read_bytes() == whole
    assert (built / target).read_bytes() == before


# --- locks and the environment -------------------------------------------------------------------

# A figure whose drawing waits for a file.
SLOW = """
import time
from dataclasses import replace
from pathlib import Path
from rspo.figures import register
from rspo.figures.intro import FIGURE

def draw(table):
    Path("started").touch()
    while not Path("go").exists():
        time.sleep(0.05)
    return FIGURE.draw(table)

register(replace(FIGURE, name="fig_slow", draw=draw))
"""
SLOW_RUN = ["reports/fig_slow.pdf", "--config", "extensions=[slow.py]"]


def test_a_second_run_is_refused_until_the_first_was_killed(tmp_path: Path) -> None:
    """Without `--unlock`. Another folder of results is not locked."""
    folder = make_project(tmp_path)
    (folder / "slow.py").write_text(SLOW)
    first = subprocess.Popen([str(PROGRAMS / "snakemake"), *SLOW_RUN], cwd=folder)
    try:
        wait_until((folder / "started").exists)
        refused = [
            snakemake(folder, *SLOW_RUN),
            snakemake(folder, "results/tiny/problems/train.parquet"),
            snakemake(folder, "reports/fig_intro.pdf", "--config", "scale=pretrained"),
        ]
        other = snakemake(folder, "trial/problems/linear.parquet", "--config", "results=trial")
    finally:
        first.kill()
        first.wait()
        (folder / "go").touch()  # which ends the job that it left behind
    for done in refused:
        assert done.returncode == 1
        lines = [line for line in done.stderr.splitlines() if f"process {first.pid} on " in line]
        assert len(lines) == 1, done.stderr
    assert not (folder / "results" / "tiny" / "problems").exists()
    assert other.returncode == 0, other.stderr
    done = snakemake(folder, *SLOW_RUN)
    assert done.returncode == 0, done.stderr
    assert (folder / "reports" / "fig_slow.pdf").exists()


# --- data -----------------------------------------------------------------------------------------


def test_a_page_whose_evidence_is_refused_stays_as_it_was(tmp_path: Path) -> None:
    folder = make_project(tmp_path)
    (folder / "docs/results").mkdir(parents=True)
    old = [folder / "docs/results.md", folder / "docs/results/fig_main.csv"]
    for file in old:
        file.write_text("old\n")
    (folder / "docs/evidence").mkdir()
    (folder / "docs/evidence/results.parquet").write_bytes(b"damaged")
    done = snakemake(folder, "--cores", "1", "docs")
    assert done.returncode != 0
    assert "results.parquet" in done.stderr
    assert [file.read_text() for file in old] == ["old\n", "old\n"]
