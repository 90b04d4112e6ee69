"""The workflow with a judge."""

from pathlib import Path

import pytest

from rspo.core.tables import SCORES, read_table
from tests.support import judge_server
from tests.support.judge_prompt import commit
from tests.support.snakemake_project import jobs, make_project, snakemake, with_judge

pytestmark = pytest.mark.ci

SCORE = "results/tiny/cells/small--base/scores/standard/0.parquet"


def test_the_judge_decides(tmp_path: Path) -> None:
    """If its server is down, the run stops with an error, and the next run requests the rest."""
    project, upstream = make_project(tmp_path), tmp_path / "upstream"
    pinned = commit(upstream, "PROMPT = 'Q {question} | O {output} | A {answer}'\n")
    with judge_server.running(lambda prompt: (500, "")) as judge:
        config = with_judge(upstream, pinned, judge.url)
        assert jobs(snakemake(project, "-n", SCORE, *config))["fetch_judge"] == 1
        done = snakemake(project, SCORE, *config)
    assert done.returncode != 0
    assert "rspo: error: the judge at" in done.stdout + done.stderr
    assert not (project / SCORE).exists()
    with judge_server.running(lambda prompt: judge_server.reply("correct")) as judge:
        config = with_judge(upstream, pinned, judge.url)
        done = snakemake(project, SCORE, *config)
        assert done.returncode == 0, done.stderr
        rows = read_table(project / SCORE, SCORES)
        assert {row["verifier"] for row in rows} == {"xverify"}
        assert all(row["correct"] for row in rows)
        # The address and the time limits of a server do not affect verdicts.
        again = snakemake(project, SCORE, *with_judge(upstream, pinned, "http://127.0.0.1:1"))
        assert "Nothing to be done" in again.stdout + again.stderr
        # A local server needs the model, but does not trigger re-scoring.
        plan = jobs(snakemake(project, "-n", SCORE, *with_judge(upstream, pinned, None)))
        assert plan == {"fetch_judge": 1, "judge": 1, "total": 2}
