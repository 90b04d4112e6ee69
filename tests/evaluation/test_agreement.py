"""A second verifier on the samples of a policy, compared with the policy's scores."""

import itertools
import json
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.core.tables import PROBLEMS, write_table
from rspo.evaluation.agreement import agreement_of
from rspo.evaluation.score import score
from rspo.pipeline import tasks
from tests.support import ROOT, tiny_world
from tests.support.table_rows import problem, sample, write_samples
from tests.support.tasks import attest

POLICY = "small--base"
TEXTS = [r"\boxed{5}", r"\boxed{05}", r"no box: 5"]  # the rules accept the second one, too


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """The current folder is a project with samples of the base policy and their scores."""
    monkeypatch.chdir(tmp_path)
    experiment = tiny_world.load(Path())
    benchmarks = experiment.benchmarks_of("standard")
    rows = [sample("p0", index, text) for index, text in enumerate(TEXTS)]
    for benchmark in benchmarks:
        file = experiment.files.problems(benchmark)
        write_table(file, PROBLEMS, [problem("p0", ["5"])])
        attest([(file, tasks.prepare(experiment, benchmark))])
    write_samples(experiment, POLICY, "standard", dict.fromkeys(benchmarks, rows))
    score(experiment, POLICY, "standard")
    return experiment


@pytest.mark.parametrize("counts", [(5, 2, 1, 7), (3, 0, 0, 4), (0, 4, 4, 0), (1, 2, 3, 0)])
def test_kappa_is_agreement_beyond_that_of_shuffled_verdicts(
    counts: tuple[int, int, int, int],
) -> None:
    """Chance by enumeration: every verdict of A with every verdict of B."""
    kinds = [(True, True), (True, False), (False, True), (False, False)]
    verdicts = [pair for pair, count in zip(kinds, counts, strict=True) for _ in range(count)]
    shuffled = [a == b for (a, _), (_, b) in itertools.product(verdicts, verdicts)]
    chance = Fraction(sum(shuffled), len(shuffled))
    observed = Fraction(sum(a == b for a, b in verdicts), len(verdicts))
    result = agreement_of(*zip(*verdicts, strict=True))
    assert tuple(result) == counts
    assert result.responses == len(verdicts)
    assert result.agreement == pytest.approx(float(observed), rel=1e-12)
    assert result.kappa == pytest.approx(float((observed - chance) / (1 - chance)), rel=1e-9)


def test_the_table_has_each_benchmark_and_the_differing_responses_are_written(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    words = ["verify", POLICY, "--suite=standard", "--verifier=rules", "--output=differing.jsonl"]
    assert main(words) == 0
    output = capsys.readouterr().out
    assert output.startswith("A: exact, the scores\nB: rules\n")
    benchmarks = experiment.benchmarks_of("standard")
    for name in benchmarks:
        row = next(line for line in output.splitlines() if line.startswith(f"{name} "))
        assert row.split() == [name, "3", "1", "0", "1", "1", "0.667", "0.400"]
    total = next(line for line in output.splitlines() if line.startswith("all "))
    assert total.split()[1:] == ["15", "5", "0", "5", "5", "0.667", "0.400"]
    assert "they differ on 5 responses, such as:" in output
    assert r"""only B accepts "\boxed{05}" for ['5']""" in output
    rows = [json.loads(line) for line in Path("differing.jsonl").read_text().splitlines()]
    assert [row["benchmark"] for row in rows] == benchmarks
    assert {row["response"] for row in rows} == {TEXTS[1]}
    assert {(row["correct"], row["correct_b"]) for row in rows} == {(False, True)}


def test_a_judge_without_its_section_is_refused_before_missing_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "config", "config")
    assert main(["verify", POLICY, "--suite=standard", "--verifier=xverify"]) == 2
    assert "verifier 'xverify' needs a config with the section xverify" in capsys.readouterr().err


def test_the_second_verifier_may_read_other_places(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    words = ["verify", POLICY, "--suite=standard", "--extract=box,last-number"]
    for verifier in ("rules", "exact"):  # that of the scores, too, because it reads other places
        assert main(words + [f"--verifier={verifier}"]) == 0
        output = capsys.readouterr().out
        assert output.startswith(f"A: exact, the scores\nB: {verifier} --extract box,last-number\n")
        assert (
            f"only B accepts {TEXTS[2]!r} for ['5']".replace("'no box: 5'", '"no box: 5"') in output
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--verifier=xverify", "--extract=all"], "extract: xverify gets the full response; "),
        (["--verifier=exact"], "'exact' is no other one than that of the scores; allowed: rules"),
        (["--verifier=rule"], "verifier 'rule'"),
        (["--output=config/tiny.yaml"], "expected a new file that ends with .jsonl"),
        (["other"], "--suite takes one policy"),
        (["--set=verifier=math_verify"], "made with other settings (verifier: "),
    ],
)
def test_mistakes_are_one_line(
    experiment: Experiment,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    capsys.readouterr()
    assert main(["verify", POLICY, *words, "--suite=standard"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
