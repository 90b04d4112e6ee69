"""`rspo compare`: differences of two policies or files, against computations of another kind."""

import json
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t, ttest_rel

from rspo.cli import main
from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.tables import PROBLEMS, write_table
from rspo.evaluation.compare import Difference, paired_difference
from tests.support import tiny_world
from tests.support.exact import max_at_k_estimate
from tests.support.outcomes import outcomes_of
from tests.support.table_rows import problem, random_scores, write_scores

A, B = "small--rspo-pass--k4--n16--s0", "small--policy-gradient--k1--n16--s0"
FAMILIES = ("linear", "multiply", "countdown", "divide", "sequence")
ROW = re.compile(
    r"^ +(\d+) +([\d.]+) +([\d.]+) +([+-][\d.]+)  (?:([+-][\d.]+) to ([+-][\d.]+)|-) +(\S+|< \S+)"
    r" +(\S+|< \S+)$",
    re.MULTILINE,
)
Responses = dict[str, list[bool]]


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """The current folder is a project with random scores of two cells."""
    monkeypatch.chdir(tmp_path)
    experiment = tiny_world.load(Path())
    for family in FAMILIES:
        rows = [problem(f"p{row}", ["1"]) for row in range(6)]
        for row in rows:
            row["prompt"][0]["content"] += f" of {family}"
        write_table(experiment.problems(family), PROBLEMS, rows)
        steps.prepare(experiment, family).record()
    for seed, cell in enumerate((A, B)):
        scores = {name: random_scores(10 * row + seed) for row, name in enumerate(FAMILIES)}
        write_scores(experiment, cell, "standard", scores)
    return experiment


def compared(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[int, Any], str]:
    """The printed columns of each k, and the output."""
    assert main(["compare", *words]) == 0
    output = capsys.readouterr().out
    return {int(row[0]): row[1:] for row in ROW.findall(output)}, output


def write_verdicts(path: str, responses: Responses) -> str:
    rows = [{"problem": name, "correct": one} for name, of in responses.items() for one in of]
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def pass_at_k(outcomes: Sequence[bool | Fraction], k: int) -> Fraction:
    """By counting every subset."""
    passed = [any(subset) for subset in combinations(outcomes, k)]
    return Fraction(sum(passed), len(passed))


def by_family(experiment: Experiment, seed: int, column: str) -> dict[str, list[list[Any]]]:
    result = {}
    for number, family in enumerate(FAMILIES):
        rows = random_scores(10 * number + seed)
        result[family] = [
            [row[column] for row in rows if row["problem_id"] == f"p{one}"] for one in range(6)
        ]
    return result


@pytest.mark.parametrize(
    ("metric", "column", "estimate"),
    [("pass_at_k", "correct", pass_at_k), ("max_at_k", "reward", max_at_k_estimate)],
)
def test_cells_on_a_benchmark_give_the_paired_t_test_of_scipy(
    experiment: Experiment,
    capsys: pytest.CaptureFixture[str],
    metric: str,
    column: str,
    estimate: Any,
) -> None:
    words = [A, B, "--benchmark=sequence", f"--metric={metric}", *tiny_world.options()]
    table, _ = compared(capsys, *words)
    assert list(table) == [1, 2, 4]
    for k, (first, second, difference, low, high, p, _) in table.items():
        values = [
            [float(estimate(list(map(Fraction, one)), k)) for one in problems]
            for problems in (by_family(experiment, seed, column)["sequence"] for seed in (0, 1))
        ]
        expected = ttest_rel(*values)
        interval = expected.confidence_interval()
        means = np.mean(values, axis=1)
        assert [float(column) for column in (first, second, difference, low, high)] == (
            pytest.approx([*means, means[0] - means[1], *interval], abs=5.1e-4)
        )
        assert float(p) == pytest.approx(max(expected.pvalue, 2**-5), abs=5.1e-4)


def sign_flip_p(values: list[Fraction]) -> float:
    """Exact two-sided p-value: the fraction of all sign changes with a mean as far from 0."""
    observed = abs(sum(values))
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, values, strict=True)))
        for signs in product((1, -1), repeat=len(values))
    ]
    return sum(one >= observed for one in sums) / len(sums)


def random_responses(seed: int, gain: float, problems: int = 12) -> tuple[Responses, Responses]:
    """Unequal numbers of responses; the first side is better by `gain`."""
    rng = np.random.default_rng(seed)
    chances = rng.random(problems) * 0.5
    sides = []
    for more in (gain, 0.0):
        numbers = rng.integers(4, 9, problems)
        sides.append(
            {
                f"p{row}": (rng.random(number) < chances[row] + more).tolist()
                for row, number in enumerate(numbers)
            }
        )
    return sides[0], sides[1]


def compared_at(first: Responses, second: Responses, k: int) -> Difference:
    sides = (outcomes_of([*side.values()]) for side in (first, second))
    return paired_difference(*sides, "pass_at_k", k)


@pytest.mark.parametrize(("differing", "others"), [(2, 0), (3, 0), (5, 0), (3, 30), (5, 30)])
def test_few_problems_that_differ_alike_have_the_p_of_the_exact_test(
    differing: int, others: int
) -> None:
    """Student's t alone gives 0 without others, and .08 and .02 with them."""
    first = {f"p{row}": [True, True] for row in range(differing + others)}
    second = {name: [row >= differing] * 2 for row, name in enumerate(first)}
    found = compared_at(first, second, 2)
    assert found.p == sign_flip_p([Fraction(1)] * differing) == 2 ** (1 - differing)


@pytest.mark.parametrize("sizes", [(3, 3), (5, 1)], ids=str)
def test_the_error_is_that_of_strata_unless_one_has_a_single_problem(
    sizes: tuple[int, int],
) -> None:
    values = [[1.0], [0.5], [0.0], [0.0], [0.25], [0.0]]
    first, second = (outcomes_of([[True]] * 6, of, sizes) for of in (values, [[0.0]] * 6))
    low, high = paired_difference(first, second, "max_at_k", 1).interval
    strata = [6] if 1 in sizes else sizes
    parts = np.split(np.concatenate(values), np.cumsum(strata[:-1]))
    error = np.sqrt(sum(len(part) * part.var(ddof=1) for part in parts)) / 6
    assert (high - low) / 2 == pytest.approx(error * t.ppf(0.975, 6 - len(parts)))


def test_files_are_compared_on_the_problems_that_both_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = random_responses(1, 0.3)
    first["p3"] = first["p3"][:1]
    second = {"more": [True]} | dict(reversed(second.items()))  # in another order
    del second["p5"], second["p6"]
    names = write_verdicts("a.jsonl", first), write_verdicts("b.jsonl", second)
    table, output = compared(capsys, *names)
    assert list(table) == [1]
    assert "left out: 2 problems only in A, 1 only in B" in output
    assert "--k 2 would leave out 1 problem with fewer responses" in output
    table, output = compared(capsys, *names, "--k=1", "--k=4")
    assert 'k = 4 leaves out 1 problem with fewer responses, such as "p3"' in output
    for k, (one, other, difference, *_) in table.items():
        shared = [name for name in first if name in second and len(first[name]) >= k]
        values = [
            float(sum(pass_at_k(side[name], k) for name in shared) / len(shared))
            for side in (first, second)
        ]
        expected = [*values, values[0] - values[1]]
        assert [float(one), float(other), float(difference)] == pytest.approx(expected, abs=5.1e-4)


def test_a_policy_and_a_file_of_its_responses_do_not_differ(
    small_project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples of a trained cell, exported as a user would have them, and verified again."""
    import pandas as pd

    cell, folder = "small--rspo-pass--k4--n8--s0", Path("results/tiny")
    with Path("mine.jsonl").open("w") as file:
        samples = pd.read_parquet(folder / "cells" / cell / "samples" / "standard" / "0.parquet")
        for benchmark, rows in samples.groupby("benchmark"):
            problems = pd.read_parquet(folder / "problems" / f"{benchmark}.parquet")
            problems = problems.set_index("id")
            for row in rows.to_dict("records"):
                of = problems.loc[row["problem_id"]]
                line = {"problem": of["prompt"][-1]["content"], "answer": list(of["answers"])}
                file.write(json.dumps(line | {"response": row["text"]}) + "\n")
    assert main(["verify", "mine.jsonl", "--verifier=exact"]) == 0
    capsys.readouterr()
    for names in ((cell, "mine.verdicts.jsonl"), ("mine.verdicts.jsonl", cell)):
        table, output = compared(capsys, *names, *tiny_world.options(grid={}))
        assert list(table) == [1, 2, 4, 8]
        assert all(row[2] in ("+0.000", "-0.000") for row in table.values())
        assert "better" not in output
        assert "30 problems, 8 responses each" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.jsonl", "b.jsonl"], "b.jsonl: no such file, and no policy (no cell 'b.jsonl' in "),
        (["a.jsonl", A.replace("pass", "pas")], f"similar: {A}"),
        (["a.jsonl", A, "--suite=stand"], "no suite 'stand' in config/tiny.yaml"),
        (["a.jsonl", A, "--benchmark=aime"], "suite 'standard' has no benchmark 'aime'"),
        (
            ["a.jsonl", A],
            "a.jsonl and " + A + " have no problem in common; the first ones are",
        ),
        (["small--base", A], "0.parquet: no such file"),
        (["a.jsonl", "a.jsonl", "--suite=standard"], "--suite and --benchmark are of policies"),
        (["a.jsonl", "a.jsonl", "--benchmark=linear"], "--suite and --benchmark are of policies"),
        (["a.jsonl", "a.jsonl", "--k=9"], "k = 9; allowed: 1 to "),
        (["a.jsonl", "a.jsonl", "--k=0"], "k = 0; allowed: 1 to "),
        (["a.jsonl", "a.jsonl", "--metric=best"], "--metric"),
        (["a.jsonl", "raw.jsonl"], "raw.jsonl, line 1: the key 'correct' is missing; has problem"),
        (["a.jsonl"], "Missing argument"),
    ],
)
def test_mistakes_are_one_line(
    experiment: Experiment, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    write_verdicts("a.jsonl", random_responses(0, 0.0)[0])
    Path("raw.jsonl").write_text('{"problem": "p0"}\n')
    assert main(["compare", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("rspo: error: ")
    assert output.err.count("\n") == 1
    assert message in output.err
