"""Scores: a verdict and a reward for each sample of a policy; bad samples are refused."""

from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.core.files import write_text
from rspo.core.tables import PROBLEMS, SCORES, read_table, write_table
from rspo.evaluation.score import score
from rspo.pipeline import tasks
from rspo.pipeline.provenance import read_provenance
from rspo.pipeline.run import record
from tests.support import judge_server, paper_scale, tiny_world
from tests.support.table_rows import problem, sample, write_samples

POLICY, SUITE = "small--base", "contamination_free"
BENCHMARKS = ["linear_larger", "divide_larger"]


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """Two problems of each benchmark, with the same ids, and no samples yet."""
    experiment = tiny_world.load(tmp_path)
    for name, answer in zip(BENCHMARKS, ("5", "6"), strict=True):
        problems = [problem("p0", [answer]), problem("p1", ["7", "seven"])]
        write_table(experiment.files.problems(name), PROBLEMS, problems)
        record(tasks.prepare(experiment, name))
    return experiment


SAMPLES_OF_BOTH = [
    sample("p0", 0, r"\boxed{5}", tokens=9),
    sample("p0", 1, r"\boxed{6}", tokens=3),
    sample("p1", 0, r"\boxed{seven}", tokens=18),
    sample("p1", 1, "seven", tokens=1),
]


def test_verdicts_and_length_discounted_rewards(experiment: Experiment) -> None:
    """Every policy's reward is 1 - 0.5 * tokens / 18, which Max@k is evaluated on."""
    write_samples(experiment, POLICY, SUITE, dict.fromkeys(BENCHMARKS, SAMPLES_OF_BOTH))
    score(experiment, POLICY, SUITE)
    path = experiment.files.scores(POLICY, SUITE, 0)
    linear, divide = BENCHMARKS
    assert [tuple(row.values()) for row in read_table(path, SCORES)] == [
        (linear, "p0", 0, True, "exact", "correct", 0.75),
        (linear, "p0", 1, False, "exact", "incorrect", 0.0),
        (linear, "p1", 0, True, "exact", "correct", 0.5),
        (linear, "p1", 1, False, "exact", "no answer", 0.0),
        (divide, "p0", 0, False, "exact", "incorrect", 0.0),
        (divide, "p0", 1, True, "exact", "correct", 1 - 0.5 * 3 / 18),
        (divide, "p1", 0, True, "exact", "correct", 0.5),
        (divide, "p1", 1, False, "exact", "no answer", 0.0),
    ]
    note = read_provenance(path)
    assert note["settings"] == tasks.score(experiment, POLICY, SUITE, 0).settings
    inputs = [
        experiment.files.samples(POLICY, SUITE, 0),
        *map(experiment.files.problems, BENCHMARKS),
    ]
    assert list(note["inputs"]) == list(map(str, inputs))


TEMPLATE = "Q {question} | O {output} | A {answer}"


def judged_experiment(tmp_path: Path, url: str) -> Experiment:
    """The paper scale with four samples of a suite of one problem, and a judge at a URL."""
    generated = {"families": ["linear"], "split": "test", "problems": 1}
    experiment = paper_scale.load(
        tmp_path,
        data={"suites": {"mine": {"own": {"label": "own", "generated": generated}}}},
        verifier="xverify",
        xverify={"url": url, "retry_seconds": 0.2},
        evaluation={"samples": 4, "block": 4, "k": [1, 2]},
    )
    policy = experiment.policies[0]
    texts = [r"\boxed{5}", r"\boxed{\frac{10}{2}}", r"\boxed{6}", "I say five"]
    rows = [sample("own/0", index, text) for index, text in enumerate(texts)]
    write_table(experiment.files.problems("own"), PROBLEMS, [problem("own/0", ["5"])])
    record(tasks.prepare(experiment, "own"))
    write_samples(experiment, policy, "mine", {"own": rows})
    write_text(experiment.files.judge_prompt, f"PROMPT = {TEMPLATE!r}")
    record(tasks.fetch_judge(experiment))
    return experiment


def five(prompt: str) -> judge_server.Answer:
    return judge_server.reply("Correct" if "five" in prompt or "{5}" in prompt else "Incorrect.")


def scored(experiment: Experiment, force: bool = False) -> list[tuple[bool, str, str]]:
    policy = experiment.policies[0]
    score(experiment, policy, "mine", force=force)
    rows = read_table(experiment.files.scores(policy, "mine", 0), SCORES)
    return [(row["correct"], row["verifier"], row["verdict"]) for row in rows]


def test_xverify_verifies_every_response_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with judge_server.running(five) as judge:
        experiment = judged_experiment(tmp_path, judge.url)
        assert scored(experiment) == [
            (True, "xverify", "correct"),
            (False, "xverify", "invalid reply"),
            (False, "xverify", "invalid reply"),
            (True, "xverify", "correct"),
        ]
        assert "Q problem own/0 | O I say five | A 5" in judge.prompts
        assert "2 of 4 responses that the judge model verified count as wrong" in caplog.text
        path = experiment.files.scores(experiment.policies[0], "mine", 0)
        note = read_provenance(path)
        assert note["notes"]["verdicts"] == {"xverify: correct": 2, "xverify: invalid reply": 2}
        assert note["settings"]["xverify"]["model"] == "IAAR-Shanghai/xVerify-0.5B-I"
        path.unlink()
        scored(experiment)
        assert len(judge.requests) == 4


def test_a_run_killed_before_its_provenance_verifies_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with judge_server.running(five) as judge:
        experiment = judged_experiment(tmp_path, judge.url)
        with monkeypatch.context() as broken:
            broken.setattr("rspo.pipeline.run.write_provenance", interrupt)
            with pytest.raises(KeyboardInterrupt):
                scored(experiment)
        monkeypatch.setattr("rspo.rewards.configured.verify", interrupt)
        assert scored(experiment, force=True) == [
            (True, "xverify", "correct"),
            (False, "xverify", "invalid reply"),
            (False, "xverify", "invalid reply"),
            (True, "xverify", "correct"),
        ]
        assert len(judge.requests) == 4
    assert read_provenance(experiment.files.scores(experiment.policies[0], "mine", 0))


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
