"""Evidence of a page: complete, compared with results, refused where it does not fit the config."""

import contextlib
import json
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from rspo.analysis.evidence import Evidence, restore
from rspo.analysis.studies import task as study_task
from rspo.analysis.write import write_claims, write_study
from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import SCORES, read_frame, write_frame
from rspo.pipeline.cost import write_cost_table
from rspo.pipeline.provenance import provenance_path
from rspo.pipeline.state import files_behind
from rspo.report import OWN_RATES, STUDIES, figures, published
from rspo.report.page import write_results
from rspo.report.published import RESULTS_PAGE
from tests.analysis.test_choice import of_two_studies
from tests.analysis.test_studies import planted_studies
from tests.support import small_paper
from tests.support.tasks import adopt

EVIDENCE = Path("docs/evidence/errors.parquet")
CLOSE = {"rtol": 1e-6, "atol": 1e-7}  # logs in evidence have nine digits
ADD, PAGE = (["evidence", action, "errors"] for action in ("add", "page"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("studies")
    planted_studies(root, seeds=2, grid_only="main")
    return root


@pytest.fixture
def project(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """A study whose policies have results, in the current folder."""
    shutil.copytree(trained, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return Experiment.load("tiny", {"seeds": 2})


def add(*words: str) -> int:
    return main([*ADD, "--set", "seeds=2", *words])


def scores_of(experiment: Experiment) -> Path:
    return experiment.files.scores(experiment.cells_of("errors")[0].name, "standard", 0)


def test_a_study_is_the_same_from_evidence_as_from_its_results(project: Experiment) -> None:
    write_study(project, "errors")
    assert add() == 0
    shutil.move("results", "others")
    assert main(PAGE) == 0
    made = [path.name for path in study_task(project, "errors").outputs]
    for name in made:
        ours, theirs = Path("docs/studies", name), Path("others/tiny/tables", name)
        if name.endswith(".csv"):
            pd.testing.assert_frame_equal(*map(pd.read_csv, (ours, theirs)), **CLOSE)
        else:
            assert ours.read_text() == theirs.read_text()
    assert not Path("results").exists()


def test_a_page_is_made_with_the_published_tables_of_studies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page of results reads one of them."""
    table = tmp_path / STUDIES / f"{OWN_RATES}.csv"
    table.parent.mkdir(parents=True)
    table.write_text("published\n")
    monkeypatch.chdir(tmp_path)
    with published._temporary_project():
        assert Path.cwd() != tmp_path
        assert (STUDIES / f"{OWN_RATES}.csv").read_text() == "published\n"


def test_evidence_has_the_logs_of_the_trainings_that_decide_in_another_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study has only the rate that is chosen, and of this one three seeds."""
    experiment = of_two_studies(tmp_path, ["rate-third"], margin=0.2)
    monkeypatch.chdir(tmp_path)
    write_study(experiment, "own")
    assert main(["evidence", "add", "own", "--set", "seeds=1"]) == 0
    kept = Evidence.read(Path("docs/evidence/own.parquet"))
    other = "small--policy-gradient--k1--n16--rate-triple--s0"
    rows = kept.rows[kept.rows["policy"] == other]
    assert rows["content"].notna().any()
    assert rows["correct"].isna().all()  # its responses are not evaluated here
    shutil.move("results", "others")
    assert main(["evidence", "page", "own"]) == 0
    for name in ("own.csv", "own_methods.csv"):
        tables = [
            pd.read_csv(Path(folder, name)) for folder in ("docs/studies", "others/tiny/tables")
        ]
        pd.testing.assert_frame_equal(*tables, **CLOSE)


def test_the_results_page_is_the_same_from_evidence_as_from_the_results(
    small_project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = small_paper.load()
    write_claims(experiment, force=True)
    write_cost_table(experiment)
    for figure in figures(experiment):
        figure.write(experiment, force=figure.reads("comparisons"))
    write_results(experiment, Path("page.md"))
    assert main(["evidence", "add", "results"]) == 0
    kept = Evidence.read(EVIDENCE.with_stem("results")).rows
    assert kept["rewards"].isna().all()  # they are 1 for correct responses and 0 for others
    shutil.move("results", "others")
    assert main(["evidence", "page", "results", "--set", "training.steps=3"]) == 2
    error = capsys.readouterr().err
    assert "--set: the page is made with the settings of docs/evidence/results.parquet" in error
    assert main(["evidence", "page", "results"]) == 0
    theirs, ours = (text.read_text().splitlines() for text in (Path("page.md"), RESULTS_PAGE))
    assert [line.replace("](results/", "](page/") for line in ours] == theirs
    for path in sorted(Path("page").glob("*.csv")):
        ours = RESULTS_PAGE.with_suffix("") / path.name
        pd.testing.assert_frame_equal(*map(pd.read_csv, (ours, path)), **CLOSE)
    values = yaml.safe_load(Path("config/tiny.yaml").read_text())
    (name, data_set), *_ = values["data"]["suites"]["standard"].items()
    data_set["generated"]["problems"] -= 1
    Path("config/tiny.yaml").write_text(yaml.safe_dump(values))
    assert main(["evidence", "page", "results"]) == 2
    assert f"problems/{name}.parquet was made with other settings" in capsys.readouterr().err


def test_a_study_is_trained_in_pieces(
    project: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    later = scores_of(project).rename("later.parquet")
    assert add() == 0
    assert f"{EVIDENCE}: added 18 policies, found 0 equal; has 18 of 19, 1 are not finished" in (
        capsys.readouterr().out
    )
    assert main(PAGE) == 2
    assert "scores/standard/0.parquet: no such file" in capsys.readouterr().err
    later.rename(scores_of(project))
    assert add() == 0
    assert "added 1 policies, found 18 equal; has 19 of 19, 0" in capsys.readouterr().out
    assert main(PAGE) == 0


def test_evidence_from_before_halves_were_kept_has_the_same_page(project: Experiment) -> None:
    """Which half a correct response is in does not matter to a study."""
    assert add() == 0
    assert main(PAGE) == 0
    page = Path("docs/studies/errors.csv").read_text()
    table = pq.read_table(EVIDENCE)
    assert table["correct_first"].null_count < len(table)
    pq.write_table(table.drop_columns(["correct_first"]), EVIDENCE)
    assert main(PAGE) == 0
    assert Path("docs/studies/errors.csv").read_text() == page


def test_restored_scores_have_the_counts_of_the_original(project: Experiment) -> None:
    add()
    path = scores_of(project)
    original = read_frame(path, SCORES)
    shutil.move("results", "others")
    restore(Evidence.read(EVIDENCE), project, files_behind(study_task(project, "errors").inputs()))
    restored = read_frame(path, SCORES)
    assert set(restored["verifier"]) == {project.config.verifier}
    now, before = (frame.groupby("problem_id")["correct"].sum() for frame in (restored, original))
    pd.testing.assert_series_equal(now, before)


def test_a_policy_with_a_fault_behind_its_scores_is_not_finished(
    project: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here a file without provenance is in the place of the policy."""
    policy = project.files.policy(project.cells_of("errors")[0].name)
    policy.mkdir(parents=True)
    (policy / "weights").write_text("of somebody else")
    assert add() == 0
    assert "added 18 policies, found 0 equal; has 18 of 19, 1 are not" in capsys.readouterr().out


def test_a_policy_that_was_trained_again_is_compared_by_counts(
    project: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    add()
    before, path = EVIDENCE.read_bytes(), scores_of(project)
    frame = read_frame(path, SCORES)
    frame.loc[frame["problem_id"] == "linear/007", "correct"] ^= True
    write_frame(path, SCORES, frame)
    adopt(path)
    capsys.readouterr()
    assert add() == 0
    said = capsys.readouterr().out
    assert (
        "1 of 320 problems have other counts than the evidence; kept, --force replaces it" in said
    )
    assert EVIDENCE.read_bytes() == before
    add("--force")
    assert EVIDENCE.read_bytes() != before


def test_trainings_of_another_processor_are_named_on_the_page(project: Experiment) -> None:
    cell = project.cells_of("errors")[0].name
    page = Path("docs/studies/errors.md")
    path = provenance_path(project.files.training_log(cell))
    for processor, named in (("unknown", False), ("Another", True)):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"processor": processor}))
        add("--force")
        assert main(PAGE) == 0
        line = f"Another, PyTorch unknown (`{cell}`)."
        assert (line in page.read_text()) == named


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line with which a command refuses the evidence."""
    capsys.readouterr()
    assert main([*words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rspo: error: {EVIDENCE}: ")
    return line


def test_evidence_of_another_config_is_refused(
    project: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    add()
    assert "is not in config/tiny.yaml" in refusal(capsys, *ADD, "--set=seeds=1")
    other = refusal(capsys, *ADD, "--set=seeds=2", "--set=training.steps=7")
    assert "was made with other settings than config/tiny.yaml (training." in other
    config = Path("config/tiny.yaml")
    original = config.read_text()
    for old, new, message in (
        ("steps: 60", "steps: 7", "was made with other settings than config/tiny.yaml (training."),
        ("accepts-0.1", "accepts-0.2", "accepts-0.1--s0 is not in config/tiny.yaml"),
    ):
        assert old in original
        config.write_text(original.replace(old, new))
        for words in ([*ADD, "--set=seeds=2"], PAGE):
            assert message in refusal(capsys, *words)


def test_policies_from_another_base_policy_are_refused(
    project: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    add()
    (base,) = project.bases_of("errors")
    path = provenance_path(project.files.training_log(project.cells_of("errors")[0].name))
    note = json.loads(path.read_text())
    (source,) = (name for name in note["inputs"] if name.endswith(f"{base}/policy"))
    note["inputs"][source] = "another"
    path.write_text(json.dumps(note))
    assert f"was made from another version of {project.files.policy(base)} than" in refusal(
        capsys, *ADD, "--set=seeds=2", "--force"
    )


def test_a_changed_byte_is_refused_or_changes_nothing(project: Experiment) -> None:
    add()
    original, content = Evidence.read(EVIDENCE).rows, EVIDENCE.read_bytes()
    refused = 0
    for place in range(0, len(content), len(content) // 200):
        changed = bytearray(content)
        changed[place] ^= 0x55
        EVIDENCE.write_bytes(changed)
        with contextlib.suppress(InputError):
            assert Evidence.read(EVIDENCE).rows.equals(original)
            refused -= 1
        refused += 1
    assert refused > 50
