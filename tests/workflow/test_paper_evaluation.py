"""The paper's evaluation with its config, on the real rows of all its benchmarks, without GPUs.

Only the weights are not real: the base model answers with random digits, and the judge behind the
address of the config accepts a quarter of the pairs of a problem and a response.
"""

import math
import zlib
from pathlib import Path

import pandas as pd
import pytest

from rspo.config.experiment import Experiment
from rspo.core.tables import CURVES, PROBLEMS, SAMPLES, SCORES, read_frame, read_table
from rspo.datasets.prepare import prepare
from rspo.evaluation.curves import curves
from rspo.evaluation.sample import sample_suite
from rspo.evaluation.score import score
from rspo.rewards.xverify.download import fetch_judge
from rspo.training.pretraining import make_base_policy
from tests.support import hub_model, judge_server, paper_scale
from tests.support.judge_prompt import commit

pytestmark = pytest.mark.ci

MODEL = "qwen2.5-math-1.5b"
BASE = f"{MODEL}--base"
PROBLEMS_OF = {
    "standard": {"aime2024": 30, "amc": 83, "math500": 100, "minerva": 100, "olympiadbench": 100},
    "contamination_free": {"aime2025": 30, "livemathbench": 100},
}
MOST_PROBLEMS = 100  # of a benchmark, as in a trial; tests/datasets/test_mirror.py has all of them
SAMPLES_EACH = 8
KS = (1, 2, 4)
ACCEPTED = 1 / 4


def judge(prompt: str) -> judge_server.Answer:
    accepts = zlib.crc32(prompt.encode()) < ACCEPTED * 2**32
    return judge_server.reply("Correct" if accepts else "Incorrect")


@pytest.fixture(scope="module")
def evaluated(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """The base policy, evaluated on both suites."""
    root = tmp_path_factory.mktemp("paper")
    upstream = root / "upstream"
    pinned = commit(upstream, f"PROMPT = {judge_server.TEMPLATE!r}\n")
    hub_model.write(root / "models" / "Qwen" / "Qwen2.5-Math-1.5B", hub_model.ANSWER)
    with judge_server.running(judge) as server:
        experiment = paper_scale.load(
            root,
            evaluation={
                "problems": MOST_PROBLEMS,
                "samples": SAMPLES_EACH,
                "block": SAMPLES_EACH,
                "k": list(KS),
            },
            xverify={
                "url": server.url,
                "prompt": {"repository": str(upstream), "commit": pinned},
            },
        )
        fetch_judge(experiment)
        make_base_policy(experiment, MODEL, root / "models")
        for suite, benchmarks in PROBLEMS_OF.items():
            for benchmark in benchmarks:
                prepare(experiment, benchmark, shared / "mirror")
            sample_suite(experiment, BASE, suite)
            score(experiment, BASE, suite)
            curves(experiment, BASE, suite)
    return experiment


@pytest.mark.parametrize("suite", PROBLEMS_OF)
def test_every_problem_has_its_samples_and_each_is_judged(
    evaluated: Experiment, suite: str
) -> None:
    asked = [
        (benchmark, problem["id"], index)
        for benchmark in evaluated.benchmarks_of(suite)
        for problem in read_table(evaluated.files.problems(benchmark), PROBLEMS)
        for index in range(SAMPLES_EACH)
    ]
    assert len(asked) == SAMPLES_EACH * sum(PROBLEMS_OF[suite].values())
    samples = read_table(evaluated.files.samples(BASE, suite, 0), SAMPLES)
    scores = read_table(evaluated.files.scores(BASE, suite, 0), SCORES)
    for rows in (samples, scores):
        keys = [(row["benchmark"], row["problem_id"], row["sample_index"]) for row in rows]
        assert keys == asked
    for row in samples:
        digits = row["text"].removeprefix("\\boxed{").removesuffix("}")
        assert row["text"] == f"\\boxed{{{digits}}}"
        assert digits.isdigit()
        assert row["tokens"] == len(row["text"]) + 1  # one for each character, and the end
        assert row["finish_reason"] == "stop"
    assert {row["verifier"] for row in scores} == {"xverify"}
    assert {row["verdict"] for row in scores} == {"correct", "incorrect"}


@pytest.mark.parametrize("suite", PROBLEMS_OF)
def test_curves_are_those_of_a_judge_that_accepts_a_quarter_at_random(
    evaluated: Experiment, suite: str
) -> None:
    """Pass@k is then 1 - (3/4)^k on each benchmark, and on all problems pooled."""
    frame = read_frame(evaluated.files.curves(BASE, suite), CURVES)
    passes = frame[frame["metric"] == "pass_at_k"].set_index(["benchmark", "k"])
    counts = PROBLEMS_OF[suite]
    panels = counts | {"pooled": sum(counts.values())}
    assert {*passes.index} == {(panel, k) for panel in panels for k in KS}
    for (panel, k), row in passes.iterrows():
        assert (row["problems"], row["samples"]) == (panels[panel], SAMPLES_EACH)
        expected = 1 - (1 - ACCEPTED) ** k
        # No less than the standard error of the mean over problems.
        error = math.sqrt(expected * (1 - expected) / (panels[panel] * SAMPLES_EACH / k))
        assert abs(row["estimate"] - expected) < 4 * error, (panel, k)
    pooled = passes.loc["pooled"]["estimate"]
    for k in KS:
        by_benchmark = pd.Series({panel: passes.loc[panel, k]["estimate"] for panel in counts})
        weights = pd.Series(counts)
        assert pooled[k] == pytest.approx((by_benchmark * weights).sum() / weights.sum())
