"""Scores: a verdict and a reward for each sample of a policy; bad samples are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import write_text
from rspo.core.provenance import provenance_path
from rspo.core.tables import PROBLEMS, SAMPLES, SCORES, read_table, write_table
from rspo.core.usage import usage_so_far
from rspo.evaluation.score import score
from rspo.rewards import JudgedResponses, Reward, register
from tests.support import judge_server, paper_scale, registries, tiny_world
from tests.support.table_rows import problem, sample

POLICY = "small--base"


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """Two problems of `linear` and no samples yet."""
    experiment = tiny_world.load(tmp_path)
    problems = [problem("p0", ["5"]), problem("p1", ["7", "seven"])]
    write_table(experiment.problems("linear"), PROBLEMS, problems)
    return experiment


SAMPLES_OF_BOTH = [
    sample("p0", 0, r"\boxed{5}", tokens=9),
    sample("p0", 1, r"\boxed{6}", tokens=3),
    sample("p1", 0, r"\boxed{seven}", tokens=18),
    sample("p1", 1, "seven", tokens=1),
]


def write_samples(experiment: Experiment, rows: list[dict[str, Any]]) -> None:
    write_table(experiment.samples(POLICY, "linear", 0), SAMPLES, rows)


def test_verdicts_and_length_discounted_rewards(experiment: Experiment) -> None:
    """Every policy's reward is 1 - 0.5 * tokens / 18, which Max@k is evaluated on."""
    write_samples(experiment, SAMPLES_OF_BOTH)
    score(experiment, POLICY, "standard", "linear")
    path = experiment.scores(POLICY, "linear", 0)
    rows = read_table(path, SCORES)
    assert [tuple(row.values()) for row in rows] == [
        ("p0", 0, True, "exact", "correct", 0.75),
        ("p0", 1, False, "exact", "incorrect", 0.0),
        ("p1", 0, True, "exact", "correct", 0.5),
        ("p1", 1, False, "exact", "no answer", 0.0),
    ]
    note = json.loads(path.with_name(path.name + ".provenance.json").read_text())
    assert note["settings"] == fingerprints.settings(experiment, "score")
    assert len(note["inputs"]) == 2


def test_a_reward_of_the_user_is_evaluated_on_right_and_wrong_responses(
    tmp_path: Path, experiment: Experiment
) -> None:
    def reward(responses: JudgedResponses) -> list[float]:
        boxed = [0.1 * ("boxed" in text) for text in responses.texts]
        return list(responses.correct + boxed - responses.tokens / 100)

    with registries.restored():
        register(Reward("boxed", reward))
        changed = tiny_world.load(tmp_path, rewards={"evaluated": "boxed"})
        write_samples(changed, SAMPLES_OF_BOTH)
        score(changed, POLICY, "standard", "linear")
    rows = read_table(changed.scores(POLICY, "linear", 0), SCORES)
    assert [row["reward"] for row in rows] == pytest.approx([1.01, 0.07, 0.92, -0.01])


def test_seconds_of_one_process_are_split_among_its_blocks(tmp_path: Path) -> None:
    """This process has already used many seconds, so counting them twice would fail."""
    experiment = tiny_world.load(tmp_path, evaluation={"samples": 4, "block": 2, "k": [1, 2]})
    problems = [problem("p0", ["5"]), problem("p1", ["7", "seven"])]
    write_table(experiment.problems("linear"), PROBLEMS, problems)
    for block in (0, 1):
        rows = [row | {"sample_index": row["sample_index"] + 2 * block} for row in SAMPLES_OF_BOTH]
        write_table(experiment.samples(POLICY, "linear", block), SAMPLES, rows)
    score(experiment, POLICY, "standard", "linear")
    notes = [
        json.loads(provenance_path(experiment.scores(POLICY, "linear", block)).read_text())
        for block in (0, 1)
    ]
    for key, used in {
        "cpu_seconds": usage_so_far().cpu_seconds,
        "wall_seconds": usage_so_far().wall_seconds,
    }.items():
        assert 0 < sum(note[key] for note in notes) <= used + 0.02  # two decimals each


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [*SAMPLES_OF_BOTH, sample("p2", 0, "")],
            r"linear/0\.parquet: 1 problems are not in the benchmark, the first 'p2'",
        ),
        (SAMPLES_OF_BOTH[:2], r"linear/0\.parquet: 1 problems have no samples, the first 'p1'"),
        (
            [*SAMPLES_OF_BOTH[:3], sample("p1", 1, "") | {"text": None}],
            r"linear/0\.parquet, row 3: column 'text' is empty",
        ),
        (
            [*SAMPLES_OF_BOTH[:3], sample("p1", 1, "", tokens=19)],
            r"linear/0\.parquet: a response of 19 tokens; allowed: 0 \.\. 18",
        ),
        ([], r"linear/0\.parquet: has no rows"),
    ],
)
def test_bad_samples_are_refused(
    experiment: Experiment, rows: list[dict[str, Any]], message: str
) -> None:
    write_samples(experiment, rows)
    with pytest.raises(InputError, match=message):
        score(experiment, POLICY, "standard", "linear")
    assert not experiment.scores(POLICY, "linear", 0).exists()


def test_missing_samples_and_unknown_policies_are_named(experiment: Experiment) -> None:
    with pytest.raises(InputError, match=r"samples/linear/0\.parquet: no such file"):
        score(experiment, POLICY, "standard", "linear")
    with pytest.raises(InputError, match="no cell 'smal--base'"):
        score(experiment, "smal--base", "standard")


TEMPLATE = "Q {question} | O {output} | A {answer}"


def judged_experiment(tmp_path: Path, url: str, verifier: str = "xverify") -> Experiment:
    """The paper scale with four samples of one problem, and a judge at a URL."""
    experiment = paper_scale.load(
        tmp_path,
        verifier=verifier,
        xverify={"url": url, "retry_seconds": 0.2},
        evaluation={"samples": 4, "block": 4, "k": [1, 2]},
    )
    policy = experiment.policies[0]
    texts = [r"\boxed{5}", r"\boxed{\frac{10}{2}}", r"\boxed{6}", "I say five"]
    rows = [sample("amc/0", index, text) for index, text in enumerate(texts)]
    write_table(experiment.problems("amc"), PROBLEMS, [problem("amc/0", ["5"])])
    write_table(experiment.samples(policy, "amc", 0), SAMPLES, rows)
    write_text(experiment.judge_prompt, f"PROMPT = {TEMPLATE!r}")
    return experiment


def five(prompt: str) -> judge_server.Answer:
    return judge_server.reply("Correct" if "five" in prompt or "{5}" in prompt else "Incorrect.")


def scored(experiment: Experiment) -> list[tuple[bool, str, str]]:
    policy = experiment.policies[0]
    score(experiment, policy, "standard", "amc")
    rows = read_table(experiment.scores(policy, "amc", 0), SCORES)
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
        assert "Q problem amc/0 | O I say five | A 5" in judge.prompts
        assert "2 of 4 responses that the judge model verified count as wrong" in caplog.text
        path = experiment.scores(experiment.policies[0], "amc", 0)
        note = json.loads(path.with_name(path.name + ".provenance.json").read_text())
        assert note["notes"]["verdicts"] == {"xverify: correct": 2, "xverify: invalid reply": 2}
        assert note["settings"]["xverify"]["model"] == "IAAR-Shanghai/xVerify-0.5B-I"
        path.unlink()
        scored(experiment)
        assert len(judge.requests) == 4


def test_the_cascade_records_which_verifier_decided(tmp_path: Path) -> None:
    with judge_server.running(five) as judge:
        assert scored(judged_experiment(tmp_path, judge.url, "cascade")) == [
            (True, "rules", "correct"),
            (True, "rules", "correct"),
            (False, "xverify", "invalid reply"),
            (True, "xverify", "correct"),
        ]
        assert len(judge.requests) == 2


def test_a_failing_judge_is_reported_with_the_verdicts_that_are_saved(tmp_path: Path) -> None:
    with judge_server.running(lambda prompt: (500, "")) as judge:
        experiment = judged_experiment(tmp_path, judge.url)
        message = (
            r"^qwen2\.5-math-1\.5b--base on amc: the judge at .* HTTP 500 ; 0 verdicts are stored"
        )
        with pytest.raises(InputError, match=message):
            scored(experiment)
    assert not experiment.scores(experiment.policies[0], "amc", 0).exists()


def test_a_run_killed_before_its_provenance_verifies_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with judge_server.running(five) as judge:
        experiment = judged_experiment(tmp_path, judge.url, "cascade")
        with monkeypatch.context() as broken:
            broken.setattr("rspo.evaluation.verification.write_provenance", interrupt)
            with pytest.raises(KeyboardInterrupt):
                scored(experiment)
        monkeypatch.setattr("rspo.rewards.configured.verify", interrupt)
        assert [correct for correct, *_ in scored(experiment)] == [True, True, False, True]
    path = experiment.scores(experiment.policies[0], "amc", 0)
    assert path.with_name(path.name + ".provenance.json").is_file()


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_missing_judge_prompt_is_reported_with_its_command(tmp_path: Path) -> None:
    experiment = judged_experiment(tmp_path, "http://127.0.0.1:1")
    experiment.judge_prompt.unlink()
    with pytest.raises(InputError, match="`rspo fetch-prompt --scale paper`"):
        scored(experiment)
