"""The rehearsal of docs/slurm.md without GPUs, on a real SLURM of one node.

Only the weights are not those of the paper: SmolLM2-135M-Instruct replaces both models, and a tiny
judge accepts a quarter of the responses at random.
"""

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.config.merge import parse_overrides
from rspo.core.files import read_json_lines
from rspo.core.tables import read_csv
from rspo.figures import SUFFIXES, figures_of
from rspo.status.policies import statuses
from tests.support import ROOT, rehearsal, slurm_world
from tests.support.judge_prompt import commit
from tests.support.slurm_cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.release, pytest.mark.timeout(9000)]
NODES = 1  # of the fixture `cluster`
LONGEST_RUN = 8000  # seconds: 1,800 on two idle cores; only a run that hangs takes so long


@dataclass(frozen=True)
class Run:
    """A finished rehearsal."""

    experiment: Experiment
    project: Path
    config: list[str]  # of Snakemake


def make_project(folder: Path) -> Path:
    """The shipped config and profile, without the requests for GPUs."""
    project = slurm_world.make_project(folder)
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    profile = project / "slurm" / "config.yaml"
    text, count = re.subn(r"^ +gres: .*\n", "", profile.read_text(), flags=re.MULTILINE)
    assert count == 2
    profile.write_text(text)
    return project


def settings(upstream: Path) -> list[str]:
    """The overrides of the page, and a prompt of the judge that needs no network."""
    pinned = commit(upstream, "PROMPT = 'Q {question} | O {output} | A {answer}'\n")
    prompt = f"xverify.prompt={{repository: {upstream}, commit: {pinned}}}"
    return [*rehearsal.overrides("sizes"), *rehearsal.overrides("without_gpus"), prompt]


@pytest.fixture(scope="module")
def run(cluster: Cluster, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    root = tmp_path_factory.mktemp("rehearsal")
    model = rehearsal.write_smollm(root / "smollm")
    rehearsal.make_mirror(shared / "mirror", model, root / "mirror")
    project, overrides = make_project(root / "project"), settings(root / "upstream")
    config = ["results=rehearsal", f"mirror={root / 'mirror'}", f"set={shlex.join(overrides)}"]
    status, output = slurm_world.run(
        cluster, project, "all", "--jobs=1", config=config, seconds=LONGEST_RUN
    )
    assert status == 0, output
    with chdir(project):  # provenance has the paths that Snakemake used
        results = Path("rehearsal")
        experiment = Experiment.load("paper", parse_overrides(overrides), results=results)
        yield Run(experiment, project, config)


def test_every_policy_is_evaluated_and_nothing_is_left_to_do(run: Run, cluster: Cluster) -> None:
    assert {status.state for status in statuses(run.experiment)} == {"evaluated"}
    assert not list(run.experiment.files.results.glob("cells/*/checkpoint*"))
    status, output = slurm_world.run(cluster, run.project, "all", config=run.config)
    assert status == 0
    assert "Nothing to be done" in output


def test_every_figure_table_claim_and_the_report_exist(run: Run) -> None:
    reports, figures = run.experiment.files.reports, figures_of(run.experiment)
    assert {"fig_main", "fig_model_size"} <= set(figures)
    names = [f"{figure}{suffix}" for figure in figures for suffix in SUFFIXES]
    names += ["claims.csv", "claim_comparisons.csv", "report.html"]
    tables = [run.experiment.files.table("cost")]
    files = [*(reports / name for name in names), *tables]
    assert [file for file in files if not file.stat().st_size] == []
    verdicts = list(read_csv(reports / "claims.csv")["verdict"])
    assert any(not verdict.startswith("not tested") for verdict in verdicts)
    rows = read_csv(reports / "fig_main.csv")
    assert set(rows["benchmark"]) == {*run.experiment.benchmarks_of("standard"), "pooled"}
    assert set(rows["k"]) == {"1", "2"}
    page = (reports / "report.html").read_text()
    assert all(cell in page for cell in run.experiment.cells)


def test_every_step_was_judged_and_validated_and_drops_responses(run: Run) -> None:
    for cell in run.experiment.cells:
        records = read_json_lines(run.experiment.files.training_log(cell))
        assert [record["step"] for record in records] == [1, 2]
        assert sum(record["correct"] for record in records) > 0
        for record in records:
            assert set(record["validation"]) >= {"pass_at_1", "pass_at_2"}
            assert record["zero_weight"] > 0  # a policy gradient gives wrong responses none
            assert record["response_tokens"] <= 64
            assert (record["gradient_norm"] > 0) == (record["zero_weight"] < 1)
