"""`rspo compare` and `rspo pass-at-k` with policies by their names."""

import json
from pathlib import Path

import pytest

from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.core.files import write_json_lines
from rspo.core.tables import PROBLEMS, write_table
from rspo.evaluation.read_outcomes import suite_scores
from rspo.pipeline import tasks
from tests.support import tiny_world
from tests.support.table_rows import problem, random_scores, write_scores
from tests.support.tasks import attest

A = "small--base"
B = "small--rspo-pass--k4--n16--s0"
FAMILIES = ("linear", "multiply", "countdown", "divide", "sequence")


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """The current folder is a project with random scores of two policies, in two blocks."""
    monkeypatch.chdir(tmp_path)
    blocks = {"samples": 8, "block": 4, "k": [1, 2, 4], "resamples": 50}
    experiment = tiny_world.load(Path(), evaluation=blocks)
    for family in FAMILIES:
        rows = [problem(f"p{row}", ["1"]) for row in range(6)]
        for row in rows:
            row["prompt"][0]["content"] += f" of {family}"
        file = experiment.files.problems(family)
        write_table(file, PROBLEMS, rows)
        attest([(file, tasks.prepare(experiment, family))])
    for seed, policy in enumerate((A, B)):
        scores = {name: random_scores(10 * place + seed) for place, name in enumerate(FAMILIES)}
        write_scores(experiment, policy, "standard", scores)
    return experiment


def write_as_file(experiment: Experiment, policy: str, by_text: bool) -> Path:
    """All scores of a policy as rows of one's own, by the texts of problems or by their ids."""
    rows = []
    for family, outcomes in suite_scores(experiment, policy, "standard").items():
        for problem_id, verdicts in zip(outcomes.ids, outcomes.correct.tolist(), strict=True):
            text = f"problem {problem_id} of {family}"
            name = text if by_text else f"{family}/{problem_id}"
            rows.extend({"problem": name, "correct": verdict} for verdict in verdicts)
    path = Path(f"{policy}.{by_text}.jsonl")
    write_json_lines(path, rows)
    return path


def output_of(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out.splitlines()


def test_policies_are_compared_over_all_blocks_as_their_scores_in_a_file_are(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(experiment.score_files(A, "standard")) == 2
    by_name = output_of(capsys, "compare", A, B, "--suite=standard")
    assert by_name[:3] == [f"A: {A}", f"B: {B}", "30 problems, 8 responses each"]
    files = [write_as_file(experiment, policy, by_text=True) for policy in (A, B)]
    by_file = output_of(capsys, "compare", *files)
    assert by_name[2:] == by_file[2:]
    mixed = output_of(capsys, "compare", A, files[1], "--suite=standard")
    assert mixed[0] == (
        f"warning: {A} has verdicts of exact, {files[1]} those of other software; "
        "`rspo verify FILE --verifier exact` makes such verdicts"
    )
    assert mixed[3:] == by_file[2:]


def test_the_curve_of_a_policy_is_that_of_its_scores_in_a_file(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    by_name = output_of(capsys, "pass-at-k", A, "--suite=standard", "--k=2")
    assert by_name[0] == "240 responses to 30 problems, 8 each"
    by_file = output_of(capsys, "pass-at-k", write_as_file(experiment, A, by_text=False), "--k=2")
    # Bands of a policy are drawn within each benchmark, so that errors differ.
    estimates = [lines[4].split()[:2] for lines in (by_name, by_file)]
    assert estimates[0] == estimates[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--suite=standard", "--verifier=rules"], "--verifier is for files; `rspo verify POLICY"),
        (["--suite=other"], "no suite 'other' in config/tiny.yaml"),
        ([], "small--base: no such file (--suite names the suite of a policy)"),
    ],
)
def test_mistakes_are_one_line(
    experiment: Experiment, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["compare", A, B, *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_scores_from_another_version_of_their_inputs_are_refused(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = experiment.files.scores(B, "standard", 1)
    note = scores.with_name(f"{scores.name}.provenance.json")
    text = json.loads(note.read_text())
    text["digest"] = "0" * 64
    note.write_text(json.dumps(text))
    assert main(["compare", A, B, "--suite=standard"]) == 2
    assert str(scores) in capsys.readouterr().err
    scores.unlink()
    assert main(["compare", A, B, "--suite=standard"]) == 2
    assert (
        f"{scores}: no such file; `rspo score {B} standard 1` makes it" in capsys.readouterr().err
    )
