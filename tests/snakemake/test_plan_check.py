"""The check of a plan, on finished results, some of which say that they took hours.

A dry run and a run print the same; a run that is refused changes no file.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rspo.analysis import claims
from rspo.config.experiment import Experiment
from rspo.core.files import digest
from rspo.figures import figures_of
from rspo.pipeline import tasks
from rspo.pipeline.provenance import provenance_path
from rspo.report import task as report_task
from tests.support.snakemake_project import jobs, snakemake

CELL = "small--rspo-pass--k4--n8--s0"
CELLS = "results/tiny/cells"
FOLDER = f"{CELLS}/{CELL}"
POLICY, LOG = f"{FOLDER}/policy", f"{FOLDER}/training.jsonl"
SAMPLES, SCORES, CURVES = (
    f"{FOLDER}/{name}"
    for name in (
        "samples/standard/0.parquet",
        "scores/standard/0.parquet",
        "curves/standard.parquet",
    )
)
WAYS = "--config results=trial writes to another folder, --config replace=true replaces it"
STEPS = ["--config", "set=training.steps=7"]  # instead of 6
PLANNED_AGAIN = {"train": 1, "sample": 1, "score": 1, "curves": 1, "total": 4}


def took(path: str, hours: float) -> None:
    """Let the provenance of a result say how long it took."""
    change(path, wall_seconds=hours * 3600)


def change(path: str, **values: object) -> None:
    note = provenance_path(Path(path))
    note.write_text(json.dumps(json.loads(note.read_text()) | values))


def contents() -> dict[str, str]:
    """Digest of every result and of its provenance."""
    return {str(path): digest(path) for path in Path("results").rglob("*") if path.is_file()}


def refusal(*words: str) -> list[str]:
    """The lines of an error that a dry run and a run end with, which change no result."""
    before = contents()
    found = []
    for dry in ([], ["-n"]):
        done = snakemake(Path.cwd(), *dry, CURVES, *words)
        assert done.returncode == 1
        output = done.stdout if dry else done.stderr
        assert "Traceback" not in output
        _, error, text = output.rpartition("error: ")
        assert error, output
        found.append(text.strip().splitlines())
    assert contents() == before
    assert found[0] == found[1]
    return found[0]


def plan(*words: str) -> subprocess.CompletedProcess[str]:
    done = snakemake(Path.cwd(), "-n", CURVES, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_nothing_is_planned_or_said_about_finished_results(project: Path) -> None:
    took(POLICY, 20)
    done = plan()
    assert "Nothing to be done" in done.stdout
    assert "This run" not in done.stdout + done.stderr


def test_a_policy_of_hours_is_not_replaced_for_changed_settings(project: Path) -> None:
    took(POLICY, 2.1)
    assert refusal(*STEPS) == [
        f"{POLICY} was made with other settings (training.steps: 6 -> 7), and took 2.1 hours: "
        + WAYS
    ]


def test_both_ways_on_are_open(project: Path) -> None:
    took(POLICY, 2.1)
    done = plan(*STEPS, "replace=true")
    assert jobs(done) == PLANNED_AGAIN
    trial = snakemake(
        project, "-n", CURVES.replace("results/tiny", "trial"), *STEPS, "results=trial"
    )
    assert jobs(trial)["train"] == 1


@pytest.mark.parametrize(
    ("minutes", "limit", "is_refused"),
    [(10.1, None, True), (9.9, None, False), (40, 30, True), (40, 50, False)],
)
def test_the_limit_is_a_key_of_the_config(
    project: Path, minutes: float, limit: float | None, is_refused: bool
) -> None:
    took(POLICY, minutes / 60)
    words = [*STEPS, f"replace_above={limit}"] if limit else STEPS
    if is_refused:
        assert f"and took {minutes:.0f} minutes: " in refusal(*words)[0]
    else:
        assert jobs(plan(*words)) == PLANNED_AGAIN


def test_shorter_results_are_replaced_after_a_line_with_their_number(project: Path) -> None:
    why = f"{POLICY} was made with other settings (training.steps: 6 -> 7)"
    assert f"This run makes results again: {why}, and 3 more.\n" in plan(*STEPS).stdout
    Path(SAMPLES).unlink()
    made = snakemake(project, "-n", SAMPLES, CURVES)
    why = f"{SCORES} is made again, because {SAMPLES} is"
    assert f"This run makes results again: {why}, and 1 more.\n" in made.stdout
    made = snakemake(project, "-n", SAMPLES)
    assert jobs(made) == {"sample": 1, "total": 1}
    assert "This run" not in made.stdout


def forced() -> list[str]:
    return ["--forcerun", "train"]


def new_problems() -> list[str]:
    problems = Path("results/tiny/problems/train.parquet")
    problems.write_bytes(problems.read_bytes() + b" ")
    note = provenance_path(problems)
    change(str(problems), digest=digest(problems), bytes=problems.stat().st_size)
    assert note.exists()
    return []


def new_time() -> list[str]:
    os.utime("results/tiny/problems/train.parquet")
    return []


def without_log() -> list[str]:
    Path(LOG).unlink()
    return [LOG]


def made_again() -> list[str]:
    return ["--forcerun", "results/tiny/problems/train.parquet"]


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (forced, f"{POLICY} is made again because of --forcerun"),
        (lambda: [POLICY, "--force"], f"{POLICY} is made again because of --force"),
        (lambda: ["--forceall"], f"{POLICY} is made again because of --forceall"),
        (lambda: ["--forcerun", POLICY], f"{POLICY} is made again because of --forcerun"),
        (
            new_problems,
            f"{POLICY} was made from another version of results/tiny/problems/train.parquet",
        ),
        (
            new_time,
            f"{POLICY} is older than results/tiny/problems/train.parquet, which has not changed "
            "(--touch accepts it)",
        ),
        (without_log, f"{POLICY} is made again with {LOG}, which is missing"),
        (made_again, f"{POLICY} is made again, because results/tiny/problems/train.parquet is"),
    ],
)
def test_the_reason_is_named(project: Path, prepare: Callable[[], list[str]], why: str) -> None:
    took(POLICY, 20)
    words = prepare()
    assert refusal(*words) == [f"{why}, and took 20.0 hours: {WAYS}"]
    assert jobs(plan(*words, "--config", "replace=true"))["train"] == 1


def test_the_causes_come_first_and_at_most_three_results_are_named(project: Path) -> None:
    for path in (POLICY, SAMPLES, SCORES, CURVES):
        took(path, 3)
    first, second, third, more = refusal(*STEPS)
    assert first.startswith(f"{POLICY} was made with other settings (training.steps: 6 -> 7), and")
    assert second.startswith(f"{SAMPLES} is made again, because {POLICY} is, and took 3.0 hours: ")
    assert third.startswith(f"{SCORES} is made again, because {SAMPLES} is, and took 3.0 hours: ")
    assert more == "and 1 more"


def test_a_training_that_was_interrupted_before_its_end_resumes(project: Path) -> None:
    """Its first output is there, with the provenance of the policy that it replaces."""
    took(POLICY, 20)
    Path(LOG).unlink()
    checkpoint = Path(FOLDER, "checkpoint")
    checkpoint.mkdir()
    settings = tasks.train(Experiment.load(), CELL).settings
    (checkpoint / "origin.json").write_text(json.dumps({"settings": settings}))
    assert jobs(plan(LOG))["train"] == 1


def without(path: str) -> None:
    provenance_path(Path(path)).unlink()


def truncated(path: str) -> None:
    note = provenance_path(Path(path))
    os.truncate(note, note.stat().st_size // 2)


UNKNOWN = f"{POLICY} has no readable provenance, so its settings are unknown"


@pytest.mark.parametrize("damage", [without, truncated])
def test_a_policy_without_provenance_is_not_replaced(
    project: Path, damage: Callable[[str], None]
) -> None:
    """Its training log, another output of the same job, may tell how long it took."""
    for path in (POLICY, LOG):
        took(path, 20)
    damage(POLICY)
    assert refusal(*STEPS) == [f"{UNKNOWN}, and took 20.0 hours: {WAYS}"]
    damage(LOG)
    assert refusal("--forcerun", "train") == [f"{UNKNOWN}, and how long it took is unknown: {WAYS}"]
    assert jobs(plan(*STEPS, "replace=true", "--forcerun", "train")) == PLANNED_AGAIN


def test_an_interrupted_training_resumes_if_its_first_output_has_no_provenance(
    project: Path,
) -> None:
    without(POLICY)
    Path(LOG).unlink()
    checkpoint = Path(FOLDER, "checkpoint")
    checkpoint.mkdir()
    settings = tasks.train(Experiment.load(), CELL).settings
    (checkpoint / "origin.json").write_text(json.dumps({"settings": settings}))
    assert jobs(plan(LOG))["train"] == 1


MODULE = """
module paper:
    snakefile: "workflow/Snakefile"
    config: config
use rule * from paper as paper_*
"""


def test_a_module_whose_rules_have_other_names_has_the_check(project: Path) -> None:
    took(POLICY, 2.1)
    Path("Snakefile").write_text(MODULE)
    assert refusal(*STEPS)[0].startswith(f"{POLICY} was made with other settings (training.steps: ")


def test_code_of_the_user_that_changed_is_named_also_if_there_is_nothing_to_do(
    project: Path,
) -> None:
    Path("top_two_mean.py").write_text("a = 1\n")
    change(POLICY, own_code={"top_two_mean.py": digest(Path("top_two_mean.py"))})
    assert "has changed" not in plan().stdout
    Path("top_two_mean.py").write_text("a = 2\n")
    for done in (plan(), snakemake(project, CURVES)):
        output = done.stdout + done.stderr
        assert "Nothing to be done" in output
        line = "top_two_mean.py has changed since 1 result was made with it, which this run keeps; "
        assert output.count(line) == 1
    # A run that makes the policy again keeps no result of the former code.
    assert "has changed" not in plan(*STEPS).stdout


def test_touch_names_the_results_that_stay_stale_and_counts_no_jobs(project: Path) -> None:
    took(POLICY, 20)
    done = snakemake(project, CURVES, "--touch", *STEPS)
    assert done.returncode == 0, done.stderr
    why = f"{POLICY} was made with other settings (training.steps: 6 -> 7)"
    assert f"--touch changes times only: {why}; the next run makes that again." in done.stderr
    assert "All files of this run have new times. No job has run." in done.stderr
    assert "jobs done" not in done.stderr


def test_touch_says_nothing_about_results_that_are_up_to_date(project: Path) -> None:
    os.utime(POLICY)
    done = snakemake(project, CURVES, "--touch")
    assert done.returncode == 0, done.stderr
    assert "--touch changes" not in done.stderr


def test_touch_counts_the_files_that_do_not_exist_in_one_line(project: Path) -> None:
    Path(SAMPLES).unlink()
    done = snakemake(project, SAMPLES, CURVES, "--touch")
    assert done.returncode == 0, done.stderr
    (line,) = [row for row in done.stderr.splitlines() if "not exist" in row or "new times" in row]
    assert line.startswith("The files that exist have new times. 1 of ")
    assert line.endswith(f" files do not exist, such as {SAMPLES}. No job has run.")
    shutil.rmtree("results")
    done = snakemake(project, CURVES, "--touch")
    assert done.returncode == 0, done.stderr
    line = "No file of this run exists, so that no file was touched. No job has run."
    assert line in done.stderr.splitlines()
    assert "don't exist" not in done.stdout + done.stderr


def test_figures_of_another_folder_of_results_are_made_again(project: Path) -> None:
    """As those of a trial that were copied to reports/; without --touch, and after it."""
    figure = "reports/fig_main.pdf"
    inputs = json.loads(provenance_path(Path(figure)).read_text())["inputs"]
    for path in (figure, "reports/fig_main.png", "reports/fig_main.csv"):
        change(
            path,
            file=path.replace("reports", "trial/reports"),
            inputs={name.replace("results/tiny", "trial"): "0" * 64 for name in inputs},
        )
    for touch in (False, True):
        if touch:
            done = snakemake(project, figure, "--touch")
            assert "fig_main.pdf was made without results/tiny/cells/" in done.stderr
        done = snakemake(project, "-n", figure)
        assert jobs(done) == {"figure": 1, "total": 1}, touch


def test_commands_that_only_show_a_plan_are_not_refused(project: Path) -> None:
    took(POLICY, 20)
    for option in ("--summary", "--dag"):
        done = snakemake(project, CURVES, option, *STEPS)
        assert done.returncode == 0, done.stderr


def test_figures_and_tables_are_replaced_however_long_they_took(project: Path) -> None:
    """The old file stays until the new one is whole."""
    figure = "reports/fig_main.pdf"
    took(figure, 20)
    done = snakemake(project, "-n", figure, "--config", "set=models.small.label=Little")
    assert jobs(done)["figure"] == 1


def test_replace_is_true_or_false(project: Path) -> None:
    done = snakemake(project, "-n", CURVES, "--config", "replace=maybe")
    assert done.returncode == 1
    assert "error: replace = 'maybe': expected true or false" in done.stdout + done.stderr


def test_the_limit_changes_no_other_setting(project: Path) -> None:
    def settings(experiment: Experiment) -> list[str]:
        made = [step for _, step in tasks.results(experiment)]
        made += [figure.task(experiment) for figure in figures_of(experiment).values()]
        made += [claims.task(experiment), tasks.cost(experiment), report_task(experiment)]
        return [step.settings_hash for step in made]

    changed = Experiment.load("tiny", {"replace_above": 99})
    assert changed.config.replace_above == 99
    assert settings(changed) == settings(Experiment.load("tiny"))
    assert settings(changed) == settings(changed.replacing())


# --- damaged results ------------------------------------------------------------------------------

WEIGHTS = f"{POLICY}/model.safetensors"
DAMAGED = f"{POLICY} was damaged or changed after it was written"
REMEDY = f"`rspo train {CELL} --force` makes it again"


def cut() -> str:
    size = Path(WEIGHTS).stat().st_size
    os.truncate(WEIGHTS, size - 1)
    return f" (bytes of model.safetensors: {size} -> {size - 1})"


def remove() -> str:
    size = Path(WEIGHTS).stat().st_size
    Path(WEIGHTS).unlink()
    return f" (bytes of model.safetensors: {size} -> none)"


def swap() -> str:
    """Two files with the same total."""
    files = Path(POLICY, "config.json"), Path(POLICY, "tokenizer.json")
    first, second = (file.stat().st_size for file in files)
    os.truncate(files[0], first - 1)
    os.truncate(files[1], second + 1)
    return (
        f" (bytes of config.json: {first} -> {first - 1}, tokenizer.json: {second} -> {second + 1})"
    )


def cut_of_an_earlier_version() -> str:
    """Whose provenance has no names of files."""
    note = provenance_path(Path(POLICY))
    values = json.loads(note.read_text())
    del values["files"]
    note.write_text(json.dumps(values))
    cut()
    return ""


def require_line_and_nothing_to_do(project: Path, line: str) -> None:
    """A run and a dry run print a line once, and make nothing."""
    for dry in ([], ["-n"]):
        done = snakemake(project, *dry, CURVES)
        assert done.returncode == 0, done.stderr
        output = (done.stdout + done.stderr).splitlines()
        assert output.count(line) == 1, output
        assert any(row.startswith("Nothing to be done") for row in output)


@pytest.mark.parametrize("damage", [cut, remove, swap, cut_of_an_earlier_version])
def test_a_damaged_policy_is_a_line_and_is_not_trained_again_unasked(
    project: Path, damage: Callable[[], str]
) -> None:
    """Also when there is nothing to do."""
    what = damage()
    line = f"This run leaves a result as it is: {DAMAGED}{what}; {REMEDY}."
    require_line_and_nothing_to_do(project, line)


@pytest.mark.parametrize("lost", [POLICY, LOG])
def test_a_missing_result_is_a_line_and_is_not_made_again_unasked(project: Path, lost: str) -> None:
    """A warning and no error: a user may have removed it on purpose, to free space."""
    if Path(lost).is_dir():
        shutil.rmtree(lost)
    else:
        Path(lost).unlink()
    line = (
        "This run does not make a missing result again, because the files made from it exist: "
        f"{lost} is missing; {REMEDY}."
    )
    require_line_and_nothing_to_do(project, line)
    assert jobs(plan("--forcerun", CURVES)) == {"curves": 1, "total": 1}


@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        (["NOTES.md"], "remove NOTES.md"),
        (["a", "b", "c", "d"], "remove a, b, c and 1 more"),
    ],
)
def test_a_file_that_was_added_is_to_be_removed(
    project: Path, names: list[str], remedy: str
) -> None:
    for name in names:
        Path(POLICY, name).write_text("mine")
    (error,) = refusal("--forcerun", SAMPLES)
    assert error.startswith(f"{DAMAGED} (bytes of {names[0]}: none -> 4")
    assert error.endswith(f"; {remedy}")
    Path(WEIGHTS).unlink()
    (error,) = refusal("--forcerun", SAMPLES)
    assert error.endswith(f"; {REMEDY}")


def test_results_without_provenance_are_named_and_counted(project: Path) -> None:
    for path in (SAMPLES, SCORES):
        provenance_path(Path(path)).unlink()
    done = plan()
    line = f"{SAMPLES} has no readable provenance, so its settings are unknown; "
    assert f"This run leaves a result as it is: {line}" in done.stdout
    assert done.stdout.count(", and 1 more.") == 1


def test_a_damaged_result_that_a_job_would_read_is_an_error(project: Path) -> None:
    """Directly, or behind a result that is not made again."""
    remove()
    (error,) = refusal("--forcerun", SAMPLES)
    assert error.startswith(f"{DAMAGED} (bytes of ")
    assert error.endswith(f"); {REMEDY}")
    assert refusal("--forcerun", SCORES) == [error]
    assert refusal("--forcerun", CURVES) == [error]


def test_the_command_in_the_line_mends_the_result(project: Path) -> None:
    from rspo.cli import main

    before = digest(Path(POLICY))
    remove()
    assert main(["train", CELL, "--force"]) == 0
    assert digest(Path(POLICY)) == before
    assert "leaves" not in plan().stdout


def test_an_unfinished_training_is_resumed_by_the_command_in_the_line(project: Path) -> None:
    """Killed between its outputs and their provenance: --force would start from step 1."""
    for path in (POLICY, LOG):
        provenance_path(Path(path)).unlink()
    checkpoint = Path(FOLDER, "checkpoint")
    checkpoint.mkdir()
    settings = tasks.train(Experiment.load(), CELL).settings
    (checkpoint / "origin.json").write_text(json.dumps({"settings": settings}))
    assert f"; `rspo train {CELL}` resumes it." in plan().stdout
