"""`rspo compare`: differences of two files, against computations of another kind."""

import json
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import ttest_rel

from rspo.cli import main
from rspo.core.tables import SCORES, write_table
from rspo.evaluation.compare import Difference, curves_of, pair, paired_difference
from rspo.evaluation.pass_at_k import titles
from rspo.evaluation.sides import side_of_files
from rspo.evaluation.verify_file import verify_file
from rspo.figures.compared import names_in_legend
from rspo.formats.source import Reading
from tests.support.exact import max_at_k_estimate
from tests.support.outcomes import outcomes_of
from tests.support.response_files import inspect_json, inspect_zip, nemo_skills, qwen_math, verl
from tests.support.table_rows import random_scores

ROW = re.compile(
    r"^ +(\d+) +([\d.]+) +([\d.]+) +([+-][\d.]+)  (?:([+-][\d.]+) to ([+-][\d.]+)|-) +(\S+|< \S+)"
    r" +(\S+|< \S+)$",
    re.MULTILINE,
)
Responses = dict[str, list[bool]]


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


@pytest.mark.parametrize(
    ("metric", "column", "estimate"),
    [("pass_at_k", "correct", pass_at_k), ("max_at_k", "reward", max_at_k_estimate)],
)
def test_scores_tables_give_the_paired_t_test_of_scipy(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    metric: str,
    column: str,
    estimate: Any,
) -> None:
    sides = [random_scores(seed) for seed in (0, 1)]
    files = [tmp_path / f"{name}.parquet" for name in "ab"]
    for file, rows in zip(files, sides, strict=True):
        write_table(file, SCORES, [{"benchmark": "linear"} | row for row in rows])
    ks = (f"--k={k}" for k in (1, 2, 4))
    table, _ = compared(capsys, *map(str, files), f"--metric={metric}", *ks)
    assert list(table) == [1, 2, 4]
    for k, (first, second, difference, low, high, p, _) in table.items():
        values = [
            [
                float(
                    estimate(
                        [Fraction(row[column]) for row in rows if row["problem_id"] == name], k
                    )
                )
                for name in sorted({row["problem_id"] for row in rows})
            ]
            for rows in sides
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


@pytest.mark.parametrize(
    ("metric", "interval", "reason"),
    [
        ("pass_at_k", "+0.081 to +1.000", "allows for problems of other differences"),
        ("max_at_k", "-", "is unknown: other problems may differ by any amount"),
    ],
)
def test_problems_that_all_differ_by_the_same_have_an_interval_or_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], metric: str, interval: str, reason: str
) -> None:
    """Six problems, all right in one file and all wrong in the other: q = 1 - .025^(1/6)."""
    sides = [{f"p{row}": [right] * 2 for row in range(6)} for right in (True, False)]
    files = [write_verdicts(str(tmp_path / f"{i}.jsonl"), side) for i, side in enumerate(sides)]
    if metric == "max_at_k":
        for file in files:
            rows = [json.loads(line) for line in Path(file).read_text().splitlines()]
            rewarded = [json.dumps(row | {"reward": float(row["correct"])}) for row in rows]
            Path(file).write_text("\n".join(rewarded))
    assert main(["compare", *files, f"--metric={metric}", "--k=1"]) == 0
    printed = capsys.readouterr().out
    assert interval in next(line for line in printed.splitlines() if line.startswith("    1"))
    assert f"k = 1: all problems differ by the same, so the interval {reason}" in printed


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
    assert re.search(r"^  [+-]\d\.\d{3}  \d of \d against \d of \d correct  ", output, re.M)
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
    del second["more"]
    _, output = compared(capsys, names[0], write_verdicts("b.jsonl", second))
    assert "left out: 2 problems only in A, 0 only in B" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.jsonl", "b.jsonl"], "b.jsonl: no such file"),
        (["a.jsonl", "other.jsonl"], "a.jsonl and other.jsonl have no problem in common; the"),
        (
            ["a.jsonl", "again.jsonl", "--metric=max_at_k"],
            "a.jsonl: max_at_k needs the key 'reward'",
        ),
        (["a.jsonl", "again.jsonl", "--k=9"], "k = 9; allowed: 1 to "),
        (["a.jsonl", "again.jsonl", "--k=0"], "k = 0; allowed: 1 to "),
        (["a.jsonl", "again.jsonl", "--metric=best"], "--metric"),
        (["a.jsonl", "raw.jsonl"], "raw.jsonl, line 1: the key 'correct' is missing; has problem"),
        (["a.jsonl"], "Missing argument"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_verdicts("other.jsonl", {"p": [True]})
    for name in ("a", "again"):
        write_verdicts(f"{name}.jsonl", random_responses(0, 0.0)[0])
    Path("raw.jsonl").write_text('{"problem": "p0"}\n')
    assert main(["compare", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("rspo: error: ")
    assert output.err.count("\n") == 1
    assert message in output.err


def steady_and_certain(problems: int = 40, solved: int = 24) -> tuple[Responses, Responses]:
    """A solves each problem once in four responses; B solves some always, and the others never."""
    names = [f"p{place}" for place in range(problems)]
    steady = {name: [True, False, False, False] for name in names}
    certain = {name: [place < solved] * 4 for place, name in enumerate(names)}
    return steady, certain


def test_the_trade_has_gain_price_and_crossing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """B - A is .35, .1, -.15 and -.4 at k = 1 to 4, so it is 0 at k = 2 + .1 / .25."""
    sides = steady_and_certain()
    files = [write_verdicts(str(tmp_path / f"{i}.jsonl"), side) for i, side in enumerate(sides)]
    table, output = compared(capsys, *files)
    low, high = (-float(value) for value in (table[1][4], table[1][3]))
    assert f"gain of B at Pass@1, B - A: +0.350, 95 % interval {low:+.3f} to {high:+.3f}" in output
    low, high = (float(value) for value in table[4][3:5])
    assert f"price of B at Pass@4, A - B: +0.400, 95 % interval {low:+.3f} to {high:+.3f}" in output
    found = re.search(
        r"crossing: B is ahead at first and falls behind at k = 2\.4; "
        r"95 % interval: (\S+) to (\S+)",
        output,
    )
    assert found
    assert 1.0 <= float(found[1]) < 2.4 < float(found[2]) < 4.0
    _, output = compared(capsys, *reversed(files))
    assert "crossing: A is ahead at first and falls behind at k = 2.4" in output


def test_curves_that_do_not_cross_say_who_stays_ahead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    better = {f"p{place}": [place % 2 == 0, True] for place in range(40)}
    worse = {f"p{place}": [False, place % 4 == 0] for place in range(40)}
    files = [
        write_verdicts(str(tmp_path / f"{name}.jsonl"), side)
        for name, side in (("better", better), ("worse", worse))
    ]
    _, output = compared(capsys, *files)
    assert "crossing: none up to k = 2, A stays ahead; 95 % interval: above 2" in output
    half = write_verdicts(str(tmp_path / "half.jsonl"), {name: [True, False] for name in better})
    full = write_verdicts(str(tmp_path / "full.jsonl"), {name: [True, True] for name in better})
    _, output = compared(capsys, half, full)
    assert "crossing: none, B is ahead at first, the curves are equal at k = 2; 95 %" in output
    copy = write_verdicts(str(tmp_path / "copy.jsonl"), better)
    _, output = compared(capsys, files[0], copy)
    assert "crossing: none, the curves are equal up to k = 2" in output
    assert "gain of B at Pass@1, B - A: +0.000" in output
    _, output = compared(capsys, *files, "--metric=pass_hat_k")
    assert "crossing" not in output


SYSTEM = "system\nPlease reason step by step, and put your final answer within a box.\nuser\n"


def test_problems_after_the_same_system_prompt_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [f"{SYSTEM}Find {what} of the roots.\nassistant\n" for what in ("the sum", "all")]
    texts.append("short")
    sides = [{text: [right] * 2 for text in texts} for right in (True, False)]
    files = [write_verdicts(str(tmp_path / f"{i}.jsonl"), side) for i, side in enumerate(sides)]
    _, output = compared(capsys, *files)
    shown = [line.partition("correct  ")[2] for line in output.splitlines() if "correct  " in line]
    assert shown == [
        '"...the sum of the roots. assistant"',
        '"...all of the roots. assistant"',
        '"short"',
    ]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["a  b", "c\nd"], ['"a b"', '"c d"']),
        (["word " * 20] * 2, [f'"{"word " * 11}wo..."'] * 2),
        ([f"{'x ' * 40}{end}" for end in ("one", "two")], ['"...one"', '"...two"']),
        (
            [f"{'x' * 90}{end}" for end in ("one", "two")],
            [f'"...{"x" * 30}one"', f'"...{"x" * 30}two"'],
        ),
        (["x " * 40, "x " * 40 + "y"], ['"...x"', '"...x y"']),
    ],
)
def test_titles_of_problems(texts: list[str], expected: list[str]) -> None:
    assert titles(texts) == expected


@pytest.mark.promise("rspo compare base.jsonl trained.jsonl --out curves.png")
@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_the_picture_has_both_curves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    sides = steady_and_certain()
    files = [write_verdicts(str(tmp_path / f"{i}.jsonl"), side) for i, side in enumerate(sides)]
    out = tmp_path / f"curves{suffix}"
    _, output = compared(capsys, *files, f"--out={out}")
    assert output.endswith(f"\nwrote {out}\n")
    beginnings = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}
    assert out.read_bytes().startswith(beginnings[suffix])
    assert main(["compare", *files, f"--out={tmp_path / 'curves.csv'}"]) == 2
    assert "has the suffix '.csv'; allowed: .png, .pdf, .svg" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("base", "shown"),
    [("base", "base"), ("b" * 100, f"{'b' * 28}..."), (r"a$x$ $\bad$", r"a\$x\$ \$\bad\$")],
)
def test_the_legend_of_the_picture_is_within_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    base: str,
    shown: str,
) -> None:
    files = []
    for folder, side in zip((base, "trained"), steady_and_certain(), strict=True):
        (tmp_path / folder).mkdir()
        files.append(write_verdicts(str(tmp_path / folder / "samples_minerva_math.jsonl"), side))
    saved: list[Figure] = []
    save = Figure.savefig

    def remember(picture: Figure, *arguments: Any, **options: Any) -> None:
        save(picture, *arguments, **options)
        saved.append(picture)

    monkeypatch.setattr(Figure, "savefig", remember)
    compared(capsys, *files, f"--out={tmp_path / 'curves.png'}")
    (legend,) = saved[0].legends
    assert [text.get_text() for text in legend.get_texts()] == [f"A: {shown}", "B: trained"]
    box = legend.get_window_extent()
    assert (saved[0].bbox.x0, saved[0].bbox.y0) <= (box.x0, box.y0)
    assert box.x1 <= saved[0].bbox.x1
    assert box.y1 <= saved[0].bbox.y1


DATE = "2026-08-2{}T10-00-00.123456"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("base/samples.jsonl", "trained/samples.jsonl", ("base", "trained")),
        ("base/rs*.jsonl", "trained/rs*.jsonl", ("base", "trained")),
        ("runs/base.verdicts.jsonl", "runs/trained.verdicts.jsonl", ("base", "trained")),
        ("k=1.5/x.csv", "k=2.5/x.csv", ("k=1.5", "k=2.5")),
        ("m.jsonl", "m.verdicts.jsonl", ("m.jsonl", "m.verdicts.jsonl")),
        ("a/b/m.jsonl", "m.jsonl", ("a/b/m.jsonl", "m.jsonl")),
        ("same.jsonl", "same.jsonl", ("same.jsonl", "same.jsonl")),
        (
            f"out/base/samples_minerva_math_{DATE.format(1)}.jsonl",
            f"out/trained/samples_minerva_math_{DATE.format(2)}.jsonl",
            ("base/samples_minerva_math_20...", "trained/samples_minerva_math..."),
        ),
        (
            f"samples_minerva_math_{DATE.format(1)}.jsonl",
            f"samples_minerva_math_{DATE.format(2)}.jsonl",
            (f"...h_{DATE.format(1)}", f"...h_{DATE.format(2)}"),
        ),
        (f"{'m' * 90}1.csv", f"{'m' * 90}2.csv", (f"...{'m' * 27}1", f"...{'m' * 27}2")),
        ("small--base", "small--grpo", ("small--base", "small--grpo")),
    ],
)
def test_the_legend_names_what_tells_two_paths_apart(
    first: str, second: str, expected: tuple[str, str]
) -> None:
    assert names_in_legend(first, second) == expected


def test_the_drawn_points_are_the_means_over_problems(tmp_path: Path) -> None:
    sides = []
    for name, responses in zip("ab", steady_and_certain(), strict=True):
        path = Path(write_verdicts(str(tmp_path / f"{name}.jsonl"), responses))
        sides.append(side_of_files([path], Reading()))
    rows = curves_of(pair(sides))
    estimates = {(row["side"], row["k"]): row["estimate"] for row in rows}
    expected = {("A", k): k / 4 for k in range(1, 5)} | {("B", k): 0.6 for k in range(1, 5)}
    assert estimates == pytest.approx(expected)
    assert all(row["low"] <= row["estimate"] <= row["high"] for row in rows)


def test_sides_that_were_judged_differently_are_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = write_verdicts(str(tmp_path / "verdicts.jsonl"), {"a": [True], "b": [False]})
    responses = tmp_path / "responses.jsonl"
    rows = [{"problem": name, "answer": "1", "response": r"\boxed{1}"} for name in "ab"]
    responses.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, output = compared(capsys, verdicts, str(responses))
    assert f"{responses}: verified with rules; 0.0% of the responses have no answer" in output
    assert (
        f"warning: {verdicts} has verdicts of other software, {responses} those of rules; "
        "--verifier rules verifies both alike\n"
    ) in output
    again = tmp_path / "again.jsonl"
    again.write_text(responses.read_text())
    _, output = compared(capsys, str(responses), str(again))
    assert "warning: verdicts" not in output
    assert "other software" not in output


@pytest.mark.parametrize("write", [inspect_json, inspect_zip, qwen_math, verl, nemo_skills])
def test_verdicts_of_other_software_and_those_of_rspo_verify_are_told_apart(
    tmp_path: Path, write: Callable[[Path], list[Path]]
) -> None:
    """The same responses in one file with its own verdicts, and in the one that we made of it."""
    files = write(tmp_path)
    ours = tmp_path / "ours.verdicts.jsonl"
    verify_file(files, ours)
    theirs = side_of_files(files, Reading(), name="theirs")
    verified = side_of_files([ours], Reading(), name="ours")
    warning = (
        "warning: theirs has verdicts of other software, ours those of rules; "
        "--verifier rules verifies both alike"
    )
    assert warning in pair([theirs, verified]).lines
    again = side_of_files(files, Reading(), "rules")
    assert not [line for line in pair([again, verified]).lines if "alike" in line]
    # The verdicts of the file are also in the one that was made of it.
    copied = side_of_files([ours], Reading(correct="correct_in_file"))
    assert not [line for line in pair([theirs, copied]).lines if "alike" in line]


def test_verdicts_of_two_verifiers_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (file,) = verl(tmp_path)
    for verifier in ("rules", "exact"):
        verify_file(file, Path(f"{verifier}.jsonl"), verifier)
    _, output = compared(capsys, "exact.jsonl", "rules.jsonl")
    assert output.startswith(
        "warning: exact.jsonl has verdicts of exact, rules.jsonl those of rules; "
        "--verifier exact verifies both alike\n"
    )
