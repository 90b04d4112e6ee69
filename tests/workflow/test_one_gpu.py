"""config/one_gpu.yaml: what it shares with the paper's, and docs/one_gpu.md run on a CPU.

The rehearsal has a tiny model that answers with random digits, and a tiny judge.
"""

import shlex
from contextlib import chdir
from pathlib import Path

import pytest

from rspo.analysis.claims import planned
from rspo.config.experiment import Experiment
from rspo.config.merge import parse_overrides
from rspo.core.files import read_json_lines
from rspo.core.tables import SCORES, read_csv, read_table
from rspo.figures import SUFFIXES, figures_of
from rspo.status.policies import statuses
from tests.support import ROOT, hub_model, rehearsal
from tests.support.judge_prompt import commit
from tests.support.snakemake_project import make_project, snakemake

PAGE = ROOT / "docs" / "one_gpu.md"


def load(words: list[str] = [], results: Path | None = None) -> Experiment:  # noqa: B006
    root = ROOT if results is None else None
    return Experiment.load("one_gpu", parse_overrides(words), root=root, results=results)


def test_data_and_judge_are_those_of_the_paper() -> None:
    own, paper = load().config, Experiment.load("paper", root=ROOT).config
    assert own.data.train == paper.data.train
    assert own.data.validation == paper.data.validation
    assert own.data.suites["standard"] == paper.data.suites["standard"]
    assert own.verifier == paper.verifier
    judge = {"training_gpu_memory"}
    assert own.xverify is not None
    assert paper.xverify is not None
    assert own.xverify.model_dump(exclude=judge) == paper.xverify.model_dump(exclude=judge)
    math = own.models["qwen2.5-math-1.5b"]
    of_four_gpus = {"gpus", "verl"}
    published = paper.models["qwen2.5-math-1.5b"]
    assert math.model_dump(exclude=of_four_gpus) == published.model_dump(exclude=of_four_gpus)
    assert math.gpus is None


@pytest.mark.parametrize("large", [False, True])
def test_three_cells_answer_c1_and_c3(large: bool) -> None:
    words = rehearsal.overrides("eighty", PAGE.read_text()) if large else []
    experiment = load(words)
    assert len(experiment.cells) == 3
    decided = {one.claim for one in planned(experiment)[0] if one.decides}
    assert {"C1", "C3"} <= decided
    models = {cell.model for cell in experiment.cells.values()}
    assert models == {"qwen2.5-math-1.5b" if large else "qwen2.5-0.5b"}


@pytest.mark.long
@pytest.mark.timeout(9000)
@pytest.mark.promise("snakemake all --config scale=one_gpu")
def test_one_command_makes_everything(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub_model.write(tmp_path / "model", hub_model.ANSWER)
    rehearsal.make_mirror(shared / "mirror", tmp_path / "model", tmp_path / "mirror")
    upstream = tmp_path / "upstream"
    pinned = commit(upstream, "PROMPT = 'Q {question} | O {output} | A {answer}'\n")
    words = rehearsal.overrides("small", PAGE.read_text())
    words.append(f"xverify.prompt={{repository: {upstream}, commit: {pinned}}}")
    project = make_project(tmp_path / "project")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    command = ["all", "--config", "scale=one_gpu", "results=rehearsal"]
    command += [f"mirror={tmp_path / 'mirror'}", f"set={shlex.join(words)}"]
    done = snakemake(project, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The report is rehearsal/reports/report.html." in done.stderr
    again = snakemake(project, *command)
    assert "Nothing to be done" in again.stdout + again.stderr
    with chdir(project):  # provenance has the paths that Snakemake used
        experiment = load(words, Path("rehearsal"))
        assert {status.state for status in statuses(experiment)} == {"evaluated"}
        for cell in experiment.cells:
            steps = [
                record["step"] for record in read_json_lines(experiment.files.training_log(cell))
            ]
            assert steps == [1, 2]
        for policy, suite in experiment.evaluations:
            rows = read_table(experiment.files.scores(policy, suite, 0), SCORES)
            assert {row["verifier"] for row in rows} == {"xverify"}
        names = [f"{figure}{suffix}" for figure in figures_of(experiment) for suffix in SUFFIXES]
        files = [experiment.files.reports / name for name in (*names, "report.html")]
        assert [file for file in files if not file.stat().st_size] == []
        verdicts = read_csv(experiment.files.reports / "claims.csv").set_index("claim")["verdict"]
        assert not any(verdicts[claim].startswith("not tested") for claim in ("C1", "C3"))
