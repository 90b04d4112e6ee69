"""Figures: their numbers, their files, and what they say when something is missing."""

import csv
import html
import json
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, product
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any

import numpy as np
import pytest
from docutils.core import publish_parts
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure as Picture
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from PIL import Image

from rspo import figures
from rspo.config.experiment import BASE, Experiment
from rspo.core.errors import InputError
from rspo.core.files import read_json_lines, write_json_lines
from rspo.core.tables import CURVES, GRADIENTS, PROBLEMS, read_table, write_table
from rspo.evaluation.gradients import measured
from rspo.figures import (
    FIGURES,
    available,
    bandit,
    binary_groups,
    draw,
    figures_of,
    hitchhiking,
    intro,
    maxk_weight,
    passk_weight,
    style,
)
from rspo.figures.captions import full_caption
from rspo.figures.methods import methods_of
from rspo.figures.training_logs import first_pass
from rspo.objectives import OBJECTIVES
from tests.support import ROOT

# Pass@1, and how alike the problems are in difficulty, of policies like those of docs/tiny.md.
PLAUSIBLE = {
    "policy_gradient": {1: (0.40, 0.6)},
    "grpo": {1: (0.39, 0.7)},
    "rspo": {2: (0.38, 0.9), 4: (0.34, 1.3), 8: (0.29, 1.8)},
    "hitchhiking": {2: (0.33, 1.0), 4: (0.26, 1.2), 8: (0.19, 1.3)},
    BASE: {1: (0.186, 1.6)},
}


def experiment_in(root: Path, scale: str = "tiny", **overrides: Any) -> Experiment:
    shutil.copytree(ROOT / "config", root / "config", dirs_exist_ok=True)
    return Experiment.load(scale, overrides, root)


def write_results(experiment: Experiment, *names: str) -> None:
    """Plausible inputs of the figures named; of all that the scale has if none is."""
    for figure in (figures_of(experiment)[name] for name in names or available(experiment)):
        if figure.training_set:
            # A first pass of 40 steps, and some prompts that fill no further one.
            count = 40 * experiment.config.training.prompts_per_step + 3
            write_table(experiment.problems("train"), PROBLEMS, prompts_table(count))
        for number, policy in enumerate(figure.policies(experiment)):
            if figure.curves:
                suite = figure.suite(experiment)
                rows = curve_rows(experiment, policy, suite)
                write_table(experiment.curves(policy, suite), CURVES, rows)
            if figure.training_logs:
                log = log_rows(experiment, policy, number)
                write_json_lines(experiment.training_log(policy), log)
            if figure.gradients:
                rows = gradient_rows(experiment, number)
                write_table(experiment.gradients(policy), GRADIENTS, rows)


def gradient_rows(experiment: Experiment, number: int) -> list[dict[str, object]]:
    """Of the tables that `rspo gradients` writes, with numbers of the right size."""
    settings = experiment.config.gradients
    assert settings is not None
    sizes = {"hitchhiking": 5.0, "grpo": 3.0, "rspo_max_at_k_plug_in": 2.0}
    return [
        {
            "problem_id": f"linear/train/{place}",
            "objective": objective,
            "k": k,
            "n": settings.n,
            "responses": settings.responses,
            "correct": 0.1 + place / 100,
            "variance": (50 + place) * sizes.get(objective, 1.0) ** math.log2(2 * k),
            "signal": 40.0 + 3 * place + 20 * number,
        }
        for place in range(settings.prompts)
        for objective, k in measured(settings)
    ]


def prompts_table(count: int) -> list[dict[str, object]]:
    row = {
        "benchmark": "linear",
        "prompt": [{"role": "user", "content": "1+x=2"}],
        "answers": ["1"],
        "source": "linear/train",
        "revision": "1",
    }
    return [{"id": f"linear/train/{place}", "row": place, **row} for place in range(count)]


def difficulty(experiment: Experiment, policy: str) -> tuple[float, float]:
    if policy not in experiment.cells:
        return PLAUSIBLE[BASE][1]
    cell = experiment.cell(policy)
    family = PLAUSIBLE["rspo" if "rspo" in cell.objective else cell.objective]
    pass_at_1, alike = family[cell.k]
    return pass_at_1 * (1 + 0.02 * math.log2(cell.n / 16) + 0.01 * cell.seed), alike


def curve_rows(experiment: Experiment, policy: str, suite: str) -> list[dict[str, object]]:
    benchmarks = experiment.benchmarks_of(suite)
    sizes = {name: 30 + 170 * (i % 3) for i, name in enumerate(benchmarks)}
    sizes["pooled"] = sum(sizes.values())
    pass_at_1, alike = difficulty(experiment, policy)
    rows: list[dict[str, object]] = []
    for place, (benchmark, problems) in enumerate(sizes.items()):
        mean = pass_at_1 * (0.6 + 0.17 * place)
        for k in experiment.config.evaluation.k:
            value = 1 - beta_moment(alike * mean, alike * (1 - mean), k)
            half = 1.96 * math.sqrt(0.8 * value * (1 - value) / problems)
            for metric, unit in (("pass_at_k", 1.0), ("max_at_k", 0.7)):
                rows.append(
                    {
                        "cell": policy,
                        "benchmark": benchmark,
                        "metric": metric,
                        "k": k,
                        "estimate": unit * value,
                        "error_within": 0.01,
                        "error_total": half / 1.96,
                        "low": unit * (value - half),
                        "high": unit * (value + 0.9 * half),
                        "problems": problems,
                        "samples": experiment.config.evaluation.samples,
                    }
                )
    return rows


def beta_moment(a: float, b: float, k: int) -> float:
    """E[(1-w)^k] of w ~ Beta(a, b): the chance that all of k responses are wrong."""
    return math.exp(
        math.lgamma(b + k) - math.lgamma(b) - math.lgamma(a + b + k) + math.lgamma(a + b)
    )


def log_rows(experiment: Experiment, cell: str, number: int) -> list[dict[str, object]]:
    k, steps = experiment.cell(cell).k, experiment.config.training.steps
    rows: list[dict[str, object]] = []
    for step in range(1, steps + 1):
        level = 0.08 + 0.04 * math.log2(2 * k)
        noise = 0.015 * math.sin(12.9898 * step + 78.233 * number) * math.sin(step / 3 + number)
        entropy = level + (0.35 - level) * math.exp(-6 * step / steps) + noise
        solved = {f"pass_at_{2**i}": 0.3 + 0.1 * i + noise for i in range(6)}
        rows.append({"step": step, "reward": 0.3, "entropy": entropy, **solved})
    return rows


# --- what was drawn ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment = experiment_in(tmp_path_factory.mktemp("tiny"))
    write_results(experiment)
    return experiment


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Long names, two seeds, a suite of two benchmarks."""
    experiment = experiment_in(tmp_path_factory.mktemp("paper"), "paper", seeds=2)
    write_results(experiment, *PAPER)
    return experiment


NAMES = list(FIGURES)
PAPER = ["fig_entropy", "fig_contamination_free", "fig_sample_efficiency"]
CURVE_FIGURES = [name for name in NAMES if FIGURES[name].curves]

Drawn = tuple[Picture, list[dict[str, str]]]


@pytest.fixture(scope="module")
def drawn(tiny: Experiment, paper: Experiment) -> dict[tuple[str, str], Drawn]:
    """Picture and CSV of one and the same `draw`, laid out but not rendered."""
    pictures: list[Picture] = []

    def save(picture: Picture, path: Path, format: str, **options: Any) -> None:
        if format == "pdf":
            picture.draw_without_rendering()
            pictures.append(picture)
        path.write_bytes(b"not rendered")

    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Picture, "savefig", save)
        for experiment, names in ((tiny, NAMES), (paper, PAPER)):
            for name in names:
                draw(experiment, name)
                with FIGURES[name].outputs(experiment)[2].open() as stream:
                    found[experiment.scale, name] = pictures.pop(), list(csv.DictReader(stream))
    return found


def lines_of(picture: Picture, axes: int) -> dict[str, list[tuple[float, float]]]:
    """Every line of a panel by its name; guides, which show no number, aside."""
    lines = [line for line in picture.axes[axes].lines if line.get_gid() != "guide"]
    return {str(line.get_gid()): points(line.get_xdata(), line.get_ydata()) for line in lines}


def bands_of(picture: Picture, axes: int) -> dict[str, set[tuple[float, float]]]:
    """Corners of every filled area of a panel by its name."""
    areas = [c for c in picture.axes[axes].collections if isinstance(c, PolyCollection)]
    corners = {str(area.get_gid()): np.asarray(area.get_paths()[0].vertices) for area in areas}
    return {name: {(float(x), float(y)) for x, y in of_area} for name, of_area in corners.items()}


def whiskers_of(picture: Picture, axes: int) -> dict[str, list[tuple[float, float, float]]]:
    """Vertical lines of a panel by their name: x, lower end, upper end."""
    found = {}
    for lines in picture.axes[axes].collections:
        if isinstance(lines, LineCollection):
            ends = [np.asarray(segment) for segment in lines.get_segments()]
            assert all(x0 == x1 for (x0, _), (x1, _) in ends)
            found[str(lines.get_gid())] = [
                (float(x), float(low), float(high)) for (x, low), (_, high) in ends
            ]
    return found


def ends_in(
    rows: list[dict[str, str]], line: str, x: str, low: str, high: str
) -> dict[str, list[tuple[float, float, float]]]:
    """The whiskers that the CSV asks for."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        found.setdefault(row[line], []).append((float(row[x]), float(row[low]), float(row[high])))
    return found


def bars_of(picture: Picture, axes: int) -> dict[str, list[float]]:
    heights: dict[str, list[float]] = {}
    for patch in picture.axes[axes].patches:
        assert isinstance(patch, Rectangle)
        heights.setdefault(str(patch.get_gid()), []).append(patch.get_height())
    return heights


def texts_of(picture: Picture) -> dict[str, str]:
    """Texts that show numbers of the CSV, by name."""
    texts = [t for t in picture.findobj(Text) if isinstance(t, Text) and t.get_gid()]
    return {str(text.get_gid()): text.get_text() for text in texts}


def points(x: Any, y: Any) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in zip(x, y, strict=True)]


def grouped(
    rows: list[dict[str, str]], by: tuple[str, ...], x: str, y: str
) -> dict[str, list[tuple[float, float]]]:
    """Points of the CSV's lines, named as their artists are."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        found.setdefault("/".join(row[key] for key in by), []).append(
            (float(row[x]), float(row[y]))
        )
    return found


# --- picture and CSV agree -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "name"),
    [("tiny", name) for name in CURVE_FIGURES] + [("paper", n) for n in PAPER if FIGURES[n].curves],
)
def test_curves_show_the_csv(drawn: dict[tuple[str, str], Drawn], scale: str, name: str) -> None:
    picture, rows = drawn[scale, name]
    benchmarks = list(dict.fromkeys(row["benchmark"] for row in rows))
    shown = [index for index, axes in enumerate(picture.axes) if axes.axison]
    assert len(shown) == len(benchmarks)
    assert benchmarks[-1] == "pooled"
    for axes, benchmark in zip(shown, benchmarks, strict=True):
        panel = [row for row in rows if row["benchmark"] == benchmark]
        assert lines_of(picture, axes) == grouped(panel, ("method",), "k", "estimate")
        low, high = (grouped(panel, ("method",), "k", end) for end in ("low", "high"))
        bands = {name: {*low[name], *high[name]} for name in low}
        assert bands_of(picture, axes) == bands
        assert "Base" in lines_of(picture, axes)
        several = [row for row in panel if int(row["seeds"]) > 1]
        assert bool(several) == (scale == "paper")
        whiskers = ends_in(several, "method", "k", "lowest", "highest")
        assert whiskers_of(picture, axes) == whiskers
        assert {f"{row['problems']} problems" for row in panel} == {
            picture.axes[axes].get_title(loc="right")
        }


def test_entropy_shows_the_csv(drawn: dict[tuple[str, str], Drawn]) -> None:
    for scale in ("tiny", "paper"):
        picture, rows = drawn[scale, "fig_entropy"]
        expected = {}
        for quantity in ("entropy", "smoothed"):
            for method, line in grouped(rows, ("method",), "step", quantity).items():
                expected[f"{method}/{quantity}"] = line
        assert lines_of(picture, 0) == expected
        assert bands_of(picture, 0) == (seed_bands(rows, "step") if scale == "paper" else {})
        assert {f"mean of {row['window']} steps" for row in rows} == {
            " ".join(picture.get_supxlabel().split()).split("centred ")[1].split(" (")[0]
        }


def seed_bands(rows: list[dict[str, str]], x: str) -> dict[str, set[tuple[float, float]]]:
    low, high = (grouped(rows, ("method",), x, end) for end in ("lowest", "highest"))
    return {name: {*low[name], *high[name]} for name in low}


@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_sample_efficiency_shows_the_csv(drawn: dict[tuple[str, str], Drawn], scale: str) -> None:
    picture, rows = drawn[scale, "fig_sample_efficiency"]
    for axes, x in enumerate(("step", "responses")):
        assert lines_of(picture, axes) == grouped(rows, ("method",), x, "smoothed")
        assert bands_of(picture, axes) == (seed_bands(rows, x) if scale == "paper" else {})
    (k,) = {row["metric_k"] for row in rows}
    assert f"Pass@{k} " in picture.axes[0].get_ylabel()


def test_sample_efficiency_is_of_the_first_pass_and_of_whole_windows(
    tiny: Experiment, drawn: dict[tuple[str, str], Drawn]
) -> None:
    """Of 150 steps the prompts of the first 40 are new: means of 9 steps at steps 5 to 36."""
    _, rows = drawn["tiny", "fig_sample_efficiency"]
    assert {row["window"] for row in rows} == {"9"}
    for method in methods_of(tiny, FIGURES["fig_sample_efficiency"]):
        log = read_json_lines(tiny.training_log(method.policies[0]))[:40]
        means = np.convolve([100 * row["pass_at_4"] for row in log], np.ones(9) / 9, "valid")
        shown = [row for row in rows if row["method"] == method.label]
        assert [int(row["step"]) for row in shown] == list(range(5, 37))
        assert [float(row["smoothed"]) for row in shown] == pytest.approx(means.tolist())


@pytest.mark.parametrize(("prompts", "steps"), [(400, 100), (7, 1), (601, 150), (9999, 150)])
def test_the_first_pass_is_the_whole_steps_of_the_prompts(
    tmp_path: Path, prompts: int, steps: int
) -> None:
    experiment = experiment_in(tmp_path, training={"prompts_per_step": 4, "mini_batch_prompts": 2})
    write_table(experiment.problems("train"), PROBLEMS, prompts_table(prompts))
    assert first_pass(experiment) == steps


def of_lines(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Rows of the objectives that have a line; the others' numbers are the same as their line's."""
    shown = {method.objective for method in binary_groups.lines()}
    numbers = {
        tuple(v for key, v in row.items() if key != "objective")
        for row in rows
        if row["objective"] in shown
    }
    for row in rows:
        assert tuple(v for key, v in row.items() if key != "objective") in numbers
    assert {row["objective"] for row in rows} == set(OBJECTIVES)
    return [row for row in rows if row["objective"] in shown]


def test_weight_by_difficulty_shows_the_csv(drawn: dict[tuple[str, str], Drawn]) -> None:
    picture, rows = drawn["tiny", "fig_weight_by_difficulty"]
    places = product(("correct_weight", "wrong_weight", "update"), ("2", "4", "8"))
    for axes, (quantity, k) in enumerate(places):
        panel = [row for row in of_lines(rows) if row["k"] == k]
        assert lines_of(picture, axes) == grouped(panel, ("line",), "p", quantity)


def test_estimator_variance_shows_the_csv(drawn: dict[tuple[str, str], Drawn]) -> None:
    picture, rows = drawn["tiny", "fig_estimator_variance"]
    for axes, (quantity, k) in enumerate(product(("variance", "signal_to_noise"), ("2", "4", "8"))):
        panel = [row for row in of_lines(rows) if (row["panel"], row["k"]) == ("p", k)]
        assert lines_of(picture, axes) == grouped(panel, ("line",), "p", quantity)
    rest = (
        *(("k", "variance"), ("n", "variance"), ("n", "variance_times_n")),
        *(("k", "signal_to_noise"), ("n", "signal_to_noise"), ("n", "per_response")),
    )
    for axes, (x, quantity) in enumerate(rest, start=6):
        panel = [row for row in of_lines(rows) if row["panel"] == x]
        assert lines_of(picture, axes) == grouped(panel, ("line",), x, quantity)


def test_bandit_shows_the_csv(drawn: dict[tuple[str, str], Drawn]) -> None:
    picture, rows = drawn["tiny", "fig_bandit"]
    panels = ("policy", "pass_at_k", "signal_to_noise", "per_response")
    for axes, name in enumerate(panels):
        panel = [row for row in rows if row["panel"] == name]
        assert lines_of(picture, axes) == grouped(panel, ("line",), "x", "y")
    assert {row["panel"] for row in rows} == set(panels)
    for share in bandit.RULE_FRACTIONS:
        assert f" {share:g}" in picture.get_supxlabel()


def test_gradient_variance_shows_the_csv(
    tiny: Experiment, drawn: dict[tuple[str, str], Drawn]
) -> None:
    picture, rows = drawn["tiny", "fig_gradient_variance"]
    policies = tiny.gradient_policies
    quantities = ("multiple", "signal_to_noise")
    for axes, (quantity, policy) in enumerate(product(quantities, policies)):
        panel = [row for row in of_lines(rows) if row["policy"] == policy and row[quantity]]
        assert lines_of(picture, axes) == grouped(panel, ("line",), "k", quantity)
        whiskers = ends_in(panel, "line", "k", f"{quantity}_low", f"{quantity}_high")
        assert whiskers_of(picture, axes) == whiskers
    assert {row["policy"] for row in rows} == set(policies)
    face = " ".join(picture.get_supxlabel().split())
    assert {
        f"{r['prompts']} training prompts, {r['responses']} responses each, groups of n = {r['n']}"
        for r in rows
    } == {face.split("seed, ")[1].split(" whiskers")[0]}


def test_gradient_variance_is_the_mean_over_the_tables_prompts(
    tiny: Experiment, drawn: dict[tuple[str, str], Drawn]
) -> None:
    _, rows = drawn["tiny", "fig_gradient_variance"]
    for row in rows:
        table = read_table(tiny.gradients(row["policy"]), GRADIENTS)

        def mean(key: str, objective: str, k: str = row["k"], table: Any = table) -> float:
            return fmean(r[key] for r in table if (r["objective"], r["k"]) == (objective, int(k)))

        variance = mean("variance", row["objective"])
        assert float(row["variance"]) == pytest.approx(variance)
        ratio = mean("signal", row["objective"]) / variance
        assert float(row["signal_to_noise"]) == pytest.approx(ratio)
        if row["multiple"]:
            reference = mean("variance", "rspo_pass_at_k")
            assert float(row["multiple"]) == pytest.approx(variance / reference)


def test_intro_shows_the_csv(drawn: dict[tuple[str, str], Drawn]) -> None:
    picture, rows = drawn["tiny", "fig_intro"]
    for axes, panel in ((1, "max_at_k"), (3, "pass_at_k")):
        of_panel = [row for row in rows if row["panel"] == panel]
        assert lines_of(picture, axes) == grouped(of_panel, ("panel", "policy"), "x", "y")
    for axes, panel in ((0, "rewards"), (2, "prompts")):
        bars: dict[str, list[float]] = {}
        for row in rows:
            if row["panel"] == panel:
                bars.setdefault(f"{panel}/{row['policy']}", []).append(float(row["y"]))
        assert bars_of(picture, axes) == bars
    assert {row["panel"] for row in rows} == {"rewards", "max_at_k", "prompts", "pass_at_k"}


def test_hitchhiking_shows_the_csv(drawn: dict[tuple[str, str], Drawn]) -> None:
    picture, rows = drawn["tiny", "fig_hitchhiking"]
    for axes, quantity in enumerate(("reward", "baseline weight", "RSPO weight")):
        values = [float(row["value"]) for row in rows if row["quantity"] == quantity]
        assert bars_of(picture, axes) == {quantity: values}
        numbers = [t.get_text() for t in picture.axes[axes].texts if "group" not in t.get_text()]
        assert [float(text) for text in numbers] == pytest.approx(values, abs=0.0005)
    assert len(rows) == 3 * len(hitchhiking.REWARDS)


def test_disjoint_shows_the_csv(drawn: dict[tuple[str, str], Drawn]) -> None:
    picture, rows = drawn["tiny", "fig_disjoint"]
    squares = {str(p.get_gid()): p.get_facecolor() for p in picture.axes[0].patches}
    faces = [row for row in rows if row["kind"] == "face"]
    white = (1.0, 1.0, 1.0, 1.0)
    assert {name: int(colour != white) for name, colour in squares.items()} == {
        f"face/{row['case']}/{row['die']}/{row['face']}": int(row["numerator"]) for row in faces
    }
    texts = texts_of(picture)
    for row in rows:
        if row["kind"] != "face":
            name = "/".join(row[key] for key in ("kind", "case", "die") if row[key])
            assert texts[name].endswith(f"{row['numerator']}/{row['denominator']}")
    assert len(texts) == len(rows) - len(faces)


def test_passk_weight_shows_the_csv(drawn: dict[tuple[str, str], Drawn]) -> None:
    picture, rows = drawn["tiny", "fig_passk_weight"]
    left = [row for row in rows if row["panel"] == "weight"]
    assert lines_of(picture, 0) == grouped(left, ("panel", "k"), "w", "weight")
    right = [row for row in rows if row["panel"] == "boundary"]
    (boundary,) = grouped(right, ("panel",), "k", "w").values()
    assert lines_of(picture, 1) == {
        "boundary": boundary,
        "boundary/whole": [(k, w) for k, w in boundary if k in range(2, 17)],
        "boundary/limit": boundary[:1],
    }
    areas = bands_of(picture, 1)
    assert areas["above"] == {*boundary, *((k, 0.0) for k, _ in boundary)}
    assert areas["below"] == {*boundary, *((k, 1.0) for k, _ in boundary)}
    assert len(left) + len(right) == len(rows)


def test_maxk_weight_shows_the_csv(drawn: dict[tuple[str, str], Drawn]) -> None:
    picture, rows = drawn["tiny", "fig_maxk_weight"]
    of_panel = {
        panel: [row for row in rows if row["panel"] == panel]
        for panel in ("cdf", "filled", "area", "weight")
    }
    assert sum(map(len, of_panel.values())) == len(rows)
    assert lines_of(picture, 0) == grouped(of_panel["cdf"], ("panel",), "reward", "value")
    (filled,) = grouped(of_panel["filled"], ("panel",), "reward", "value").values()
    assert bands_of(picture, 0) == {"filled": {*filled, *((r, 0.0) for r, _ in filled)}}
    (area,) = of_panel["area"]
    assert f"area {float(area['value']):.3f}" in texts_of(picture)["area"]
    weights = grouped(of_panel["weight"], ("panel", "k"), "reward", "value")
    assert lines_of(picture, 1) == weights


# --- the formulas, computed another way ----------------------------------------------------------


def test_intro_values_and_crossing() -> None:
    """E[max] from the tail, and by enumeration for small k; Pass@k by the binomial's terms."""
    for policy, distribution in intro.REWARDS.items():
        assert sum(distribution.values()) == 1
        for k in (1, 2, 3):
            draws = product(distribution.items(), repeat=k)
            mean = sum(max(r for r, _ in d) * math.prod(p for _, p in d) for d in draws)
            assert intro.expected_maximum(distribution, k) == mean
        for k in intro.K:
            support = [Fraction(0), *sorted(distribution)]
            tail = Fraction(0)
            for lower, upper in pairwise(support):
                up_to = sum((p for r, p in distribution.items() if r <= lower), Fraction(0))
                tail += (upper - lower) * (1 - up_to**k)
            assert intro.expected_maximum(distribution, k) == tail
            solved = intro.PROMPTS[policy]
            some = [
                sum(math.comb(k, j) * w**j * (1 - w) ** (k - j) for j in range(1, k + 1))
                for w in solved.values()
            ]
            assert intro.pass_at_k(solved, k) == sum(some) / len(some)


@pytest.mark.parametrize("panel", ["max_at_k", "pass_at_k"])
def test_intro_preference_turns_once(panel: str) -> None:
    values = {
        policy: [
            float(r["y"]) for r in intro.numbers() if (r["panel"], r["policy"]) == (panel, policy)
        ]
        for policy in ("A", "B")
    }
    prefers_a = [a > b for a, b in zip(values["A"], values["B"], strict=True)]
    assert prefers_a[0]
    assert not prefers_a[-1]
    assert sum(now != then for now, then in pairwise(prefers_a)) == 1


def test_hitchhiking_weights_by_subsets() -> None:
    rewards, k, n = hitchhiking.REWARDS, hitchhiking.K, len(hitchhiking.REWARDS)
    weights = {
        (row["quantity"], row["response"]): float(row["value"]) for row in hitchhiking.numbers()
    }
    for i, reward in enumerate(rewards):
        others = [r for j, r in enumerate(rewards) if j != i]
        gains = [max(reward, *s) - max(s) for s in combinations(others, k - 1)]
        assert weights["RSPO weight", i + 1] == pytest.approx(k / n * fmean(gains))
        group = rewards[i // k * k :][:k]
        assert weights["baseline weight", i + 1] == pytest.approx(k / n * max(group))


def test_disjoint_cases(drawn: dict[tuple[str, str], Drawn]) -> None:
    """37/216 = 6/9 of the products in the paper's caption, and (4^3 - 3^3) / 6^3."""
    _, rows = drawn["tiny", "fig_disjoint"]
    share = {
        (row["kind"], row["case"], row["die"]): Fraction(
            int(row["numerator"]), int(row["denominator"])
        )
        for row in rows
        if row["kind"] != "face"
    }
    equal, less, at_most = Fraction(1, 6), Fraction(3, 6), Fraction(4, 6)
    for case in (1, 2, 3):
        product_ = less ** (case - 1) * equal * at_most ** (3 - case)
        assert share["case", str(case), ""] == product_
        assert math.prod(share["factor", str(case), str(die)] for die in (1, 2, 3)) == product_
    assert share["total", "", ""] == Fraction(4**3 - 3**3, 6**3) == Fraction(37, 216)


def test_passk_boundary_by_bisection() -> None:
    """The weight, k (1 - w)^(k-1), is the slope of Pass@k = 1 - (1 - w)^k."""
    boundary = [row for row in passk_weight.numbers() if row["panel"] == "boundary"]
    assert [row["k"] for row in boundary][:5] == [1, 1.25, 1.5, 1.75, 2]
    for k, w in ((float(row["k"]), float(row["w"])) for row in boundary):
        k = 1 + 1e-9 if k == 1 else k  # at k = 1 the limit is drawn
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            above = math.log(k) + (k - 1) * math.log1p(-middle) > 0
            low, high = (middle, high) if above else (low, middle)
        assert w == pytest.approx(low, abs=1e-6)
    for row in passk_weight.numbers():
        k, w, step = float(row["k"]), float(row["w"]), 1e-6
        if row["panel"] == "weight" and w < 1:
            slope = ((1 - w + step) ** k - (1 - w - step) ** k) / (2 * step)
            assert float(row["weight"]) == pytest.approx(slope, abs=1e-6)


def test_maxk_weight_by_another_integral() -> None:
    """k int (R - r)(k-1) Phi^(k-2) phi dr, the paper's form before parts, by the trapezium rule."""
    normal = NormalDist()
    grid = np.linspace(-9, 3, 4001)
    cdf = np.array([normal.cdf(r) for r in grid])
    pdf = np.array([normal.pdf(r) for r in grid])
    rows = [row for row in maxk_weight.numbers() if row["panel"] == "weight"]
    assert {row["k"] for row in rows} == {2, 4, 8}
    for row in rows:
        k, reward = int(row["k"]), float(row["reward"])
        inside = np.clip(reward - grid, 0, None) * (k - 1) * cdf ** (k - 2) * pdf
        assert float(row["value"]) == pytest.approx(k * np.trapezoid(inside, grid), abs=2e-5)


def test_maxk_area_in_closed_form() -> None:
    (area,) = [row for row in maxk_weight.numbers() if row["panel"] == "area"]
    normal, reward = NormalDist(), float(area["reward"])
    expected = reward * normal.cdf(reward) + normal.pdf(reward)
    assert float(area["value"]) == pytest.approx(expected, abs=1e-13)
    (weight,) = [
        float(row["value"])
        for row in maxk_weight.numbers()
        if (row["panel"], row["k"], row["reward"]) == ("weight", 2, reward)
    ]
    assert weight == pytest.approx(2 * expected, abs=1e-12)


# --- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "name", "metric", "unit"),
    [
        ("tiny", "fig_main", "pass_at_k", 100),
        ("tiny", "fig_max_at_k", "max_at_k", 1),
        ("paper", "fig_contamination_free", "pass_at_k", 100),
    ],
)
def test_curves_are_means_over_seeds(
    request: pytest.FixtureRequest,
    drawn: dict[tuple[str, str], Drawn],
    scale: str,
    name: str,
    metric: str,
    unit: float,
) -> None:
    experiment: Experiment = request.getfixturevalue(scale)
    figure = FIGURES[name]
    tables = {
        policy: {
            (row["benchmark"], row["k"]): row
            for row in read_table(experiment.curves(policy, figure.suite(experiment)), CURVES)
            if row["metric"] == metric
        }
        for policy in figure.policies(experiment)
    }
    rows = {(r["method"], r["benchmark"], int(r["k"])): r for r in drawn[scale, name][1]}
    methods = methods_of(experiment, figure)
    for method in methods:
        assert len(method.policies) == (1 if method.label == "Base" else experiment.config.seeds)
        for point in tables[method.policies[0]]:
            row = rows.pop((method.label, *point))
            for key in ("estimate", "low", "high"):
                seeds = [tables[policy][point][key] for policy in method.policies]
                assert float(row[key]) == pytest.approx(unit * fmean(seeds))
            seeds = [unit * tables[policy][point]["estimate"] for policy in method.policies]
            ends = [float(row["lowest"]), float(row["highest"])]
            assert ends == pytest.approx([min(seeds), max(seeds)])
            assert int(row["seeds"]) == len(method.policies)
    assert not rows
    assert sorted(p for m in methods for p in m.policies) == sorted(figure.policies(experiment))


def test_labels_tell_what_differs(tiny: Experiment) -> None:
    labels = {
        name: [method.label for method in methods_of(tiny, FIGURES[name])]
        for name in ("fig_grpo", "fig_scalability", "fig_entropy")
    }
    rspo, baseline = ([f"{name} k={k}" for k in (2, 4, 8)] for name in ("RSPO", "Baseline"))
    assert labels["fig_grpo"] == ["PG", *rspo, *baseline, "GRPO", "Base"]
    assert labels["fig_scalability"] == [*(f"RSPO k=4, n={n}" for n in (4, 8, 16, 32)), "Base"]
    assert labels["fig_entropy"] == ["PG", *rspo]


def test_smoothing_by_convolution(tiny: Experiment, drawn: dict[tuple[str, str], Drawn]) -> None:
    _, rows = drawn["tiny", "fig_entropy"]
    steps = tiny.config.training.steps
    assert steps == 150
    assert {row["window"] for row in rows} == {"7"}
    for method in methods_of(tiny, FIGURES["fig_entropy"]):
        log = read_json_lines(tiny.training_log(method.policies[0]))
        raw = np.array([row["entropy"] for row in log])
        shown = [row for row in rows if row["method"] == method.label]
        assert [float(row["entropy"]) for row in shown] == raw.tolist()
        kernel = np.ones(7)
        smooth = np.convolve(raw, kernel, "same") / np.convolve(np.ones(steps), kernel, "same")
        assert [float(row["smoothed"]) for row in shown] == pytest.approx(smooth.tolist())


def test_entropy_is_the_mean_over_seeds(
    paper: Experiment, drawn: dict[tuple[str, str], Drawn]
) -> None:
    rows = {(r["method"], int(r["step"])): r for r in drawn["paper", "fig_entropy"][1]}
    for method in methods_of(paper, FIGURES["fig_entropy"]):
        logs = [read_json_lines(paper.training_log(cell)) for cell in method.policies]
        assert len(logs) == 2
        for seeds in zip(*logs, strict=True):
            row = rows.pop((method.label, seeds[0]["step"]))
            assert float(row["entropy"]) == pytest.approx(fmean(s["entropy"] for s in seeds))
    assert not rows


@pytest.mark.parametrize("name", CURVE_FIGURES)
def test_legend_tells_methods_apart_without_colour(
    tiny: Experiment, drawn: dict[tuple[str, str], Drawn], name: str
) -> None:
    picture, _ = drawn["tiny", name]
    (legend,) = picture.legends
    looks = {}
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        if text.get_text().strip():
            assert isinstance(handle, Line2D)
            hollow = handle.get_markerfacecolor() == "white"
            looks[text.get_text()] = (handle.get_marker(), hollow, handle.get_linestyle())
    assert sorted(looks) == sorted(method.label for method in methods_of(tiny, FIGURES[name]))
    assert len(set(looks.values())) == len(looks)


def test_shades_get_darker_and_lines_thicker(tiny: Experiment) -> None:
    for name in ("fig_main", "fig_scalability"):
        for objective in ("rspo_pass_at_k", "hitchhiking"):
            family = [m for m in methods_of(tiny, FIGURES[name]) if m.objective == objective]
            looks = [style.line(method) for method in family]
            levels = [sum(int(look["color"][i : i + 2], 16) for i in (1, 3, 5)) for look in looks]
            assert levels == sorted(set(levels), reverse=True)
            widths = [look["linewidth"] for look in looks]
            assert widths == sorted(set(widths))


# --- on the page ---------------------------------------------------------------------------------


def visible_texts(picture: Picture) -> list[Text]:
    """Every text that is drawn; ticks outside the axes are not."""
    hidden: set[Text] = set()
    for axes in picture.axes:
        if not axes.axison:
            hidden.update(axes.findobj(Text))
            hidden.difference_update(axes.texts)
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = axis.get_major_ticks()
            hidden.update(t.label1 for t in ticks if not low <= t.get_loc() <= high)
    texts = [text for text in picture.findobj(Text) if isinstance(text, Text)]
    return [t for t in texts if t not in hidden and t.get_visible() and t.get_text().strip()]


ALL = [("tiny", name) for name in NAMES] + [("paper", name) for name in PAPER]


@pytest.mark.parametrize(("scale", "name"), ALL)
def test_text_is_readable_and_whole(
    drawn: dict[tuple[str, str], Drawn], scale: str, name: str
) -> None:
    """At least 7 pt at the printed width, inside the picture, and no two on top of each other."""
    picture, _ = drawn[scale, name]
    assert picture.get_figwidth() in (style.COLUMN_WIDTH, style.TEXT_WIDTH)
    texts = visible_texts(picture)
    boxes = [text.get_window_extent() for text in texts]
    page = picture.bbox
    for legend in picture.legends:
        box = legend.get_window_extent()  # its lines, not only its texts
        assert box.x0 >= 0
        assert box.x1 <= page.x1
    for text, box in zip(texts, boxes, strict=True):
        smallest = 0.7 if "^" in text.get_text() else 1
        assert float(text.get_fontsize()) * smallest >= 7 - 1e-9, text.get_text()
        inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= page.x1 and box.y1 <= page.y1
        assert inside, text.get_text()
    for (text, box), (other, other_box) in combinations(zip(texts, boxes, strict=True), 2):
        apart = not box.padded(-0.5).overlaps(other_box.padded(-0.5))
        assert apart, (text.get_text(), other.get_text())


@pytest.mark.parametrize(("scale", "name"), [key for key in ALL if FIGURES[key[1]].of_results])
def test_face_says_what_is_shown(
    request: pytest.FixtureRequest, drawn: dict[tuple[str, str], Drawn], scale: str, name: str
) -> None:
    experiment: Experiment = request.getfixturevalue(scale)
    picture, rows = drawn[scale, name]
    face = " ".join(picture.get_supxlabel().split())
    (model,) = {experiment.model_of(policy) for policy in FIGURES[name].policies(experiment)}
    assert f"{scale} scale, {experiment.config.models[model].label}" in face
    seeds = {int(row.get("seeds", 1)) for row in rows}
    assert re.search(r"(\d+) seeds?\b", face)[1] == str(max(seeds))  # type: ignore[index]
    if FIGURES[name].training_logs:
        assert f"{experiment.config.training.prompts_per_step} prompts a step" in face
    if FIGURES[name].curves:
        assert f"{experiment.config.evaluation.samples} samples a problem" in face
        assert "95 % over resampled problems" in face
        assert ("whiskers: lowest to highest seed" in face) == (max(seeds) > 1)


# --- files ---------------------------------------------------------------------------------------


def test_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    """Here, and in another process with another hash seed, clock, backend and matplotlibrc."""
    names = ["fig_entropy", "fig_passk_weight"]
    here, there = (experiment_in(tmp_path / place) for place in ("here", "there"))
    for experiment in (here, there):
        write_results(experiment, "fig_entropy")
    for name in names:
        draw(here, name)
    (tmp_path / "matplotlibrc").write_text("font.size: 20\nsavefig.bbox: tight\n")
    script = (
        "import sys; from pathlib import Path; from rspo.config.experiment import Experiment\n"
        "from rspo.figures import draw\n"
        "experiment = Experiment.load('tiny', root=Path(sys.argv[1]))\n"
        "for name in sys.argv[2:]: draw(experiment, name)"
    )
    changes = {"PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "0", "MPLBACKEND": "svg"}
    changes["MATPLOTLIBRC"] = str(tmp_path / "matplotlibrc")
    command = [sys.executable, "-c", script, str(tmp_path / "there"), *names]
    subprocess.run(command, cwd=ROOT, env=os.environ | changes, check=True)
    for name in names:
        outputs = zip(FIGURES[name].outputs(here), FIGURES[name].outputs(there), strict=True)
        for one, other in outputs:
            assert one.stat().st_size > 500
            assert one.read_bytes() == other.read_bytes(), one.name
        check_formats(*FIGURES[name].outputs(here)[:2])


def check_formats(pdf: Path, png: Path) -> None:
    """Fonts are embedded as TrueType; the picture has at least 150 dots per inch of page."""
    content = pdf.read_bytes()
    assert b"/FontFile2" in content
    assert b"/Type3" not in content
    with Image.open(png) as image:
        assert image.width / style.COLUMN_WIDTH >= 150


def test_draw_leaves_nothing_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_in(tmp_path)
    outputs = FIGURES["fig_disjoint"].outputs(experiment)

    def fail_at(suffix: str) -> None:
        def save(picture: Picture, path: Path, format: str, **options: Any) -> None:
            path.write_bytes(b"half")
            if format == suffix:
                raise OSError("No space left on device")

        monkeypatch.setattr(Picture, "savefig", save)

    for suffix in ("pdf", "png"):
        fail_at(suffix)
        with pytest.raises(OSError, match="No space"):
            draw(experiment, "fig_disjoint")
        assert list(outputs[0].parent.iterdir()) == []
    for path in outputs:
        path.write_text("from before")
    with pytest.raises(OSError, match="No space"):
        draw(experiment, "fig_disjoint")
    assert {path.read_text() for path in outputs} == {"from before"}
    assert sorted(outputs[0].parent.iterdir()) == sorted(outputs)


@pytest.mark.parametrize("name", ["fig_main", "fig_intro"])
def test_provenance_names_inputs_and_columns(
    tiny: Experiment, drawn: dict[tuple[str, str], Drawn], name: str
) -> None:
    for path in FIGURES[name].outputs(tiny):
        note = json.loads(path.with_name(path.name + ".provenance.json").read_text())
        assert list(note["inputs"]) == [str(item) for item in FIGURES[name].inputs(tiny)]
        assert list(note["settings"]["columns"]) == list(drawn["tiny", name][1][0])
    assert len(FIGURES["fig_main"].inputs(tiny)) == 8
    assert not FIGURES["fig_intro"].inputs(tiny)


# --- what can be missing -------------------------------------------------------------------------


@pytest.mark.parametrize(("overrides", "options"), [({}, ""), ({"seeds": 2}, " --config seeds=2")])
def test_missing_curves_name_file_and_command(
    tmp_path: Path, overrides: dict[str, Any], options: str
) -> None:
    experiment = experiment_in(tmp_path, **overrides)
    write_results(experiment, "fig_main")
    missing = experiment.curves("small--hitchhiking--k4--n16--s0", "standard")
    missing.unlink()
    with pytest.raises(InputError) as error:
        draw(experiment, "fig_main")
    assert str(error.value).startswith(f"{missing}: ")
    assert f"`snakemake {missing}{options}`" in str(error.value)
    assert not (experiment.results / "figures").exists()


def test_missing_logs_name_file_command_and_scale(tmp_path: Path) -> None:
    experiment = experiment_in(tmp_path, "paper")
    with pytest.raises(InputError) as error:
        draw(experiment, "fig_entropy")
    missing = experiment.training_log("qwen2.5-math-1.5b--policy-gradient--k1--n16--s0")
    assert str(error.value).startswith(f"{missing}: ")
    assert "3 more" in str(error.value)
    assert f"`snakemake {missing} --config scale=paper`" in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row["k"] != 8, "has no pass_at_k of .* on linear at k = 8"),
        (lambda row: row["benchmark"] != "pooled", "has no pass_at_k of .* on pooled at k = 1"),
        (lambda row: row["metric"] != "pass_at_k", "has no pass_at_k of .* on linear at k = 1"),
        (lambda row: row.update(low=float("nan")) or True, "must be finite"),
        (lambda row: row.update(cell="another") or True, "has no pass_at_k of small--base"),
    ],
)
def test_incomplete_curves(tmp_path: Path, change: Any, message: str) -> None:
    experiment = experiment_in(tmp_path)
    write_results(experiment, "fig_scalability")
    path = experiment.curves("small--base", "standard")
    write_table(path, CURVES, [row for row in read_table(path, CURVES) if change(row)])
    with pytest.raises(InputError, match=message) as error:
        draw(experiment, "fig_scalability")
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda log: log[:-1], "has 149 rows, expected one for each step 1 to 150.*snakemake"),
        (lambda log: log[1:] + log[:1], "expected one for each step 1 to 150 in order"),
        (lambda log: [*log[:5], log[5] | {"entropy": None}, *log[6:]], "line 6: entropy is None"),
        (lambda log: [*log[:-1], {"step": 150}], "line 150: entropy is None"),
    ],
)
def test_incomplete_training_log(tmp_path: Path, change: Any, message: str) -> None:
    experiment = experiment_in(tmp_path)
    write_results(experiment, "fig_entropy")
    path = experiment.training_log("small--rspo-pass--k8--n16--s0")
    write_json_lines(path, change(read_json_lines(path)))
    with pytest.raises(InputError, match=message) as error:
        draw(experiment, "fig_entropy")
    assert str(path) in str(error.value)


def test_grid_that_the_config_lacks(tiny: Experiment, paper: Experiment) -> None:
    assert available(tiny) == NAMES
    assert available(paper) == [n for n in FIGURES if n != "fig_gradient_variance"]
    with pytest.raises(InputError, match=r"config/paper.yaml: .* needs the section gradients"):
        draw(paper, "fig_gradient_variance")
    config = tiny.config.model_copy(update={"grid": {"main": tiny.config.grid["main"]}})
    smaller = replace(tiny, config=config)
    assert "fig_contamination_free" not in available(smaller)
    with pytest.raises(InputError, match=r"config/tiny.yaml: .* needs grid contamination_free"):
        draw(smaller, "fig_contamination_free")
    with pytest.raises(InputError, match="needs grid contamination_free"):
        FIGURES["fig_contamination_free"].policies(smaller)


def test_unknown_figure(tiny: Experiment) -> None:
    with pytest.raises(InputError, match="no figure 'fig_mian'; did you mean fig_main"):
        draw(tiny, "fig_mian")


def test_grids_that_cannot_share_panels(tmp_path: Path) -> None:
    grid = {"grpo": {"suite": "contamination_free"}}
    with pytest.raises(InputError, match=r"grid\.grpo\.suite = contamination_free"):
        draw(experiment_in(tmp_path, "paper", grid=grid), "fig_grpo")


# What a user may add to the grid, under a name that nothing else knows.
MINE = {
    "lr-sweep": {
        "suite": "standard",
        "cells": [
            {"model": "small", "objective": "rspo_pass_at_k", "k": [2, 4], "n": 8},
            {"model": "small", "objective": "rspo_max_at_k", "k": [2, 4], "n": 8},
            {"model": "small", "objective": "rspo_pass_at_k_plug_in", "k": 4, "n": 8},
        ],
    },
    "sizes": {
        "suite": "contamination_free",
        "cells": [
            {"model": model, "objective": objective, "n": 16}
            for model in ("small", "medium")
            for objective in ("policy_gradient", "grpo")
        ],
    },
    "lengths": {
        "suite": "standard",
        "cells": [
            {"model": "small", "objective": "hitchhiking", "k": 4, "n": 8, "reward": "length"}
        ],
    },
}


def test_a_comparison_of_ones_own_gets_a_figure_of_its_own(tmp_path: Path) -> None:
    experiment = experiment_in(tmp_path, grid=MINE)
    assert available(experiment) == [*NAMES, "fig_lr-sweep", "fig_sizes", "fig_lengths"]
    for name, grid in zip(available(experiment)[-3:], MINE, strict=True):
        write_results(experiment, name)
        draw(experiment, name)
        figure = figures_of(experiment)[name]
        assert figure.metric == ("max_at_k" if grid == "lengths" else "pass_at_k")
        assert grid in figure.caption
        with figure.outputs(experiment)[2].open() as stream:
            rows = list(csv.DictReader(stream))
        methods = methods_of(experiment, figure)
        assert list(dict.fromkeys(row["method"] for row in rows)) == [m.label for m in methods]
        looks = {(style.line(m)["marker"], str(style.line(m)["linestyle"])) for m in methods}
        assert len(looks) == len(methods)
        assert sorted(p for m in methods for p in m.policies) == sorted(figure.policies(experiment))
    labels = [m.label for m in methods_of(experiment, figures_of(experiment)["fig_sizes"])]
    small, medium = "Small (0.1M)", "Medium (0.25M)"
    assert labels == [f"{m}, {size}" for size in (small, medium) for m in ("PG", "GRPO")] + [
        f"Base, {small}",
        f"Base, {medium}",
    ]


def test_a_comparison_that_would_take_another_figures_name(tmp_path: Path) -> None:
    experiment = experiment_in(tmp_path, grid={"intro": MINE["sizes"]})
    with pytest.raises(InputError, match=r"config/tiny.yaml: grid.intro would be drawn as fig_int"):
        available(experiment)


def test_objectives_without_a_look_of_their_own(tmp_path: Path) -> None:
    plain = ["rspo_pass_at_k_plug_in", "rspo_max_at_k_ranked", "rspo_max_at_k_plug_in", "grpo"]
    cells = [
        {"model": "small", "objective": name, "n": 16} | ({} if name == "grpo" else {"k": [2, 4]})
        for name in plain
    ]
    experiment = experiment_in(tmp_path, grid={"main": {"cells": cells}})
    methods = methods_of(experiment, FIGURES["fig_main"])
    assert methods[1].label == "RSPO plug-in k=4"
    looks = {(style.line(m)["marker"], str(style.line(m)["linestyle"])) for m in methods}
    assert len(looks) == len(methods) == 8


# --- what others read ----------------------------------------------------------------------------


def test_registry_is_light_to_import() -> None:
    script = (
        "import sys, rspo.figures; "
        "print(sorted({'numpy', 'matplotlib', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", FIGURES)
def test_a_caption_says_which_cells_how_many_samples_and_which_seeds(
    tmp_path: Path, name: str
) -> None:
    scale = "tiny" if "contamination" not in name else "paper"
    experiment, figure = experiment_in(tmp_path, scale, seeds=3), FIGURES[name]
    caption = full_caption(experiment, figure)
    assert caption.startswith(figure.caption)
    names = set(figure.policies(experiment))
    if not figure.gradients:
        names = {policy.rpartition("--s")[0] or policy for policy in names}
    assert {word for word in re.split("[ ,;]+|[.](?: |$)", caption) if "--" in word} == names
    if figure.curves:
        assert f"N = {experiment.config.evaluation.samples} samples a problem" in caption
    if figure.training_logs or figure.curves:
        assert "3 seeds (s0 to s2) each" in caption
    elif not figure.gradients:
        assert caption.endswith("From formulas alone: no cell, no sample, no error.")


@pytest.mark.parametrize("name", FIGURES)
def test_a_caption_is_plain_text_also_as_restructured_text(tmp_path: Path, name: str) -> None:
    """Snakemake's own report reads captions as that; a stray * or _ would be a warning in it."""
    scale = "tiny" if "contamination" not in name else "paper"
    caption = full_caption(experiment_in(tmp_path, scale), FIGURES[name])
    quiet = {"report_level": 5, "output_encoding": "unicode"}
    body = publish_parts(caption, writer="html5", settings_overrides=quiet)["body"]
    assert html.unescape(body).strip() == f"<p>{caption}</p>"


def test_settings_hold_what_the_config_decides(tiny: Experiment, paper: Experiment) -> None:
    assert FIGURES["fig_main"].settings(tiny)["k"] == [1, 2, 4, 8, 16]
    assert FIGURES["fig_entropy"].settings(paper)["steps"] == 580
    assert set(FIGURES["fig_intro"].settings(tiny)) == {"figure", "caption", "code"}
    json.dumps([FIGURES[name].settings(tiny) for name in available(tiny)])


@pytest.mark.parametrize(
    ("source", "changed"),
    [("intro.py", {"fig_intro"}), ("style.py", set(FIGURES)), ("__init__.py", set())],
)
def test_a_figure_is_out_of_date_when_the_code_that_draws_it_changes(
    tiny: Experiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    changed: set[str],
) -> None:
    def settings() -> dict[str, Any]:
        figures._code.cache_clear()
        return {name: FIGURES[name].settings(tiny) for name in available(tiny)}

    before = settings()
    folder = shutil.copytree(figures.FOLDER, tmp_path / "figures")
    monkeypatch.setattr(figures, "FOLDER", folder)
    assert settings() == before
    (folder / source).write_text((folder / source).read_text() + "# another line\n")
    after = settings()
    figures._code.cache_clear()
    assert {name for name in before if after[name] != before[name]} == changed


def test_a_figure_is_out_of_date_when_its_caption_changes(tiny: Experiment) -> None:
    figure = FIGURES["fig_main"]
    other = replace(figure, caption=f"{figure.caption} More.")
    assert other.settings(tiny) != figure.settings(tiny)
