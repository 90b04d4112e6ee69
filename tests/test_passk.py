"""`rspo/passk.py`: alone in a folder, and against exact fractions and independent code."""

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import rspo.estimators
from rspo import passk
from rspo.objectives import OBJECTIVES
from rspo.passk import (
    crossing,
    curve,
    estimates,
    max_at_k,
    max_at_k_weights,
    mean_with_errors,
    paired_difference,
    pass_at_k,
    pass_at_k_variance,
    pass_at_k_weights,
    pass_hat_k,
    t_quantile,
    two_sided_p,
)

FILE = Path(passk.__file__)
CALLS = """
import importlib, json, sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path]
sys.path += [FOLDER, NUMPY]
import passk
before = {name.split(".")[0] for name in sys.modules}
n, c = [4, 16, 1000], [1, 3, 7]
values, variances = passk.estimates([[0, 1, 1], [1, 0, 0, 0, 0]], 2)
results = {
    "pass_at_k": passk.pass_at_k(n, c, 4).tolist(),
    "pass_hat_k": passk.pass_hat_k(n, c, 1).tolist(),
    "max_at_k": float(passk.max_at_k([0.5, -2, 3, 3], 2)),
    "uneven": values.tolist(),
    "weights": passk.pass_at_k_weights([[1, 0, 0, 1, 0]], 3).tolist(),
    "p": passk.paired_difference([1, 0.5, 1, 0.25], [0.5, 0.5, 0, 0]).p,
    "checked": bool(passk.check(passk.pass_at_k_weights, 4, 8, factor=1)),
    "modules": sorted(before - {"__main__"} - set(sys.stdlib_module_names)),
}
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the file and NumPy, and nothing else."""
    folder = tmp_path_factory.mktemp("alone")
    shutil.copy(FILE, folder)
    packages = folder / "packages"
    packages.mkdir()
    installed = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        (packages / name).symlink_to(installed / name)
    return folder


def run_alone(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in Python without site-packages, environment variables and the current folder."""
    places = f"FOLDER, NUMPY = {str(folder)!r}, {str(folder / 'packages')!r}\n"
    command = [sys.executable, "-I", "-S", "-c", places + code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_copy_in_an_empty_folder_passes_its_own_test_with_numpy_alone(alone: Path) -> None:
    code = "import runpy, sys; sys.path += [NUMPY]\n"
    code += "runpy.run_path(FOLDER + '/passk.py', run_name='__main__')"
    done = run_alone(alone, code)
    assert done.returncode == 0, done.stderr
    number, _, words = done.stdout.strip().partition(" ")
    assert int(number) > 2000
    assert words == "values are those of exact fractions"


def test_a_copy_in_an_empty_folder_has_the_numbers_of_exact_fractions(alone: Path) -> None:
    done = run_alone(alone, CALLS)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["modules"] == ["numpy", "passk"]
    sizes = ((4, 1), (16, 3), (1000, 7))
    exact = [float(1 - Fraction(comb(n - c, 4), comb(n, 4))) for n, c in sizes]
    assert found["pass_at_k"] == pytest.approx(exact, rel=1e-13)
    assert found["pass_hat_k"] == pytest.approx([1 / 4, 3 / 16, 7 / 1000], rel=1e-13)
    assert found["max_at_k"] == pytest.approx((0.5 + 5 * 3) / 6, rel=1e-13)
    assert found["uneven"] == pytest.approx([1, 2 / 5])
    weight = pytest.approx(3 / 5 * comb(3, 2) / comb(4, 2))
    assert found["weights"] == [[weight, 0, 0, weight, 0]]
    expected = stats.ttest_rel([1, 0.5, 1, 0.25], [0.5, 0.5, 0, 0]).pvalue
    assert found["p"] == pytest.approx(max(expected, 0.25))
    assert found["checked"] is True


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("n - c]", "n - c - 1]"),
        ("(k / n) * fraction_all_wrong", "fraction_all_wrong"),
        ("np.maximum(m - (k - 1), 0.0) / m", "np.maximum(m - k, 0.0) / m"),
        ("disjoint = 2.0", "disjoint = 1.0"),
        ("max(1.0 - inside, 1e-14)", "max(1.1 - inside, 1e-14)"),
        ("[before + 1, before]", "[before, before - 1]"),
    ],
)
def test_the_self_test_of_a_copy_finds_a_fault(alone: Path, name: str, fault: str) -> None:
    text = FILE.read_text()
    assert name in text
    (alone / "wrong.py").write_text(text.replace(name, fault))
    done = run_alone(
        alone, "import sys; sys.path += [FOLDER, NUMPY]; import wrong; wrong.self_test()"
    )
    assert done.returncode == 1
    assert "Error" in done.stderr


def test_the_self_test_also_passes_in_the_package_and_compares_the_same_values() -> None:
    assert passk.self_test() == 2537


def test_the_functions_of_the_package_are_those_of_the_file() -> None:
    for name in rspo.estimators.__all__:
        if hasattr(passk, name):
            assert getattr(rspo.estimators, name) is getattr(passk, name)
    assert OBJECTIVES["rspo_pass_at_k"].function is pass_at_k_weights
    assert OBJECTIVES["rspo_max_at_k"].function is max_at_k_weights
    assert OBJECTIVES["rspo_pass_at_k"].built_in


def test_n_may_differ_between_problems_and_counts_have_any_dtype() -> None:
    n, c = np.array([[4, 7], [16, 64]]), np.array([[1, 7], [0, 9]])
    for estimate in (pass_at_k, pass_hat_k, pass_at_k_variance, passk.pass_hat_k_variance):
        expected = [[estimate(int(n[i, j]), int(c[i, j]), 2) for j in (0, 1)] for i in (0, 1)]
        for dtype in (np.int8, np.uint16, np.float16, np.float32, np.float64):
            assert np.array_equal(estimate(n, c.astype(dtype), 2), expected)
        assert np.array_equal(estimate(torch.tensor(n), torch.tensor(c), 2), expected)
    assert pass_at_k(n, 1, 2).shape == (2, 2)
    for sizes, counts in ((n, c), (4, [])):
        with pytest.raises(ValueError, match="k = 5 with n = 4 samples"):
            pass_at_k(sizes, counts, 5)


def test_rewards_may_have_any_float_dtype() -> None:
    rewards = np.array([[0.5, -1.0, 2.0, 2.0], [0.0, 0.25, 0.25, 1.0]])
    for given in (
        *(rewards.astype(dtype) for dtype in (np.float16, np.float32, np.longdouble)),
        *(torch.tensor(rewards).to(dtype) for dtype in (torch.bfloat16, torch.float32)),
    ):
        assert np.array_equal(max_at_k(given, 2), max_at_k(rewards, 2))
        weights = max_at_k_weights(given, 2)
        assert type(weights) is type(given)
        assert weights.dtype == given.dtype
        found = passk.as_floats(weights)
        assert found == pytest.approx(max_at_k_weights(rewards, 2), rel=4e-3)
    assert pass_at_k_weights(torch.tensor([[1, 0]]), 1).dtype == torch.float64
    assert pass_at_k_weights([[1, 0]], 1).tolist() == [[0.5, 0.0]]


def test_an_empty_set_has_no_mean_and_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    assert pass_at_k(8, [], 2).shape == (0,)
    assert pass_at_k(np.zeros(0, int), np.zeros(0, int), 2).shape == (0,)
    assert max_at_k(np.zeros((0, 4)), 2).shape == (0,)
    assert pass_at_k_weights(np.zeros((0, 4)), 2).shape == (0, 4)
    for metric in ("pass_at_k", "pass_hat_k", "max_at_k"):
        mean = mean_with_errors([], 4, metric)
        assert mean.problems == 0
        assert np.isnan([mean.value, mean.error, mean.within]).all()
    assert paired_difference([], []).problems == 0
    assert math.isnan(paired_difference([], []).value)
    assert math.isnan(crossing(np.zeros((0, 4)), np.zeros((0, 4))).k)
    assert not recwarn.list


def metric_of(subset: tuple[Any, ...], metric: str) -> float:
    return float(min(subset) if metric == "pass_hat_k" else max(subset))


@pytest.mark.parametrize("metric", ["pass_at_k", "pass_hat_k", "max_at_k"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_mean_of_uneven_lists_and_its_errors_are_those_of_all_subsets(
    metric: str, k: int
) -> None:
    rng = np.random.default_rng(3)
    groups = [rng.integers(0, 2, size).tolist() for size in (6, 7, 9, 6, 8)]
    if metric == "max_at_k":
        groups = [rng.integers(-4, 5, size).tolist() for size in (6, 7, 9, 6, 8)]
    values, variances = [], []
    for group in groups:
        places = range(len(group))
        best = {s: metric_of(tuple(group[i] for i in s), metric) for s in combinations(places, k)}
        values.append(np.mean([*best.values()]))
        apart = [best[s] * best[t] for s in best for t in best if not set(s) & set(t)]
        variances.append(values[-1] ** 2 - np.mean(apart))
    found, of_sampling = estimates(groups, k, metric)
    assert found == pytest.approx(values)
    assert of_sampling == pytest.approx(np.array(variances), abs=1e-12)
    mean = mean_with_errors(groups, k, metric)
    within = math.sqrt(sum(variances)) / 5
    assert mean.value == pytest.approx(np.mean(values))
    assert mean.within == pytest.approx(within)
    assert mean.error == pytest.approx(max(within, stats.sem(values)))


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 30, 101, 889, 20_000])
def test_students_t_is_that_of_scipy(degrees: int) -> None:
    for t in (0.0, 0.3, 1.0, 2.5, 6.0, 40.0):
        expected = 2 * stats.t.sf(t, degrees)
        assert two_sided_p(t, degrees) == pytest.approx(expected, rel=1e-9, abs=2e-14)
        assert two_sided_p(-t, degrees) == two_sided_p(t, degrees)
    for level in (0.5, 0.95, 0.99):
        expected = stats.t.ppf((1 + level) / 2, degrees)
        assert t_quantile(degrees, level) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("problems", [2, 3, 12, 200])
def test_a_paired_difference_is_that_of_the_t_test(problems: int) -> None:
    rng = np.random.default_rng(problems)
    first, second = rng.random((2, problems))
    found, expected = paired_difference(first, second), stats.ttest_rel(first, second)
    low, high = expected.confidence_interval()
    assert (found.low, found.high) == pytest.approx((max(low, -1), min(high, 1)), rel=1e-9)
    assert found.p == pytest.approx(max(expected.pvalue, 2.0 ** (1 - problems)), rel=1e-9)
    assert found.error == pytest.approx(stats.sem(first - second))
    swapped = paired_difference(second, first)
    assert (swapped.low, swapped.high) == pytest.approx((-found.high, -found.low))
    single = paired_difference(first.astype(np.float32), second.astype(np.float32))
    assert single.p == pytest.approx(found.p, rel=1e-4)


@pytest.mark.parametrize("problems", [2, 5, 6, 100])
def test_problems_that_all_differ_by_the_same_have_an_interval(problems: int) -> None:
    """It excludes 0 exactly where p is below 5 %; for differences of 1, p is of the sign flips."""
    found = paired_difference(np.ones(problems), np.zeros(problems))
    assert found.p == 2.0 ** (1 - problems)
    assert (found.low > 0) == (found.p < 0.05)
    assert found.high == 1.0
    alike = paired_difference(np.full(problems, 0.3), np.full(problems, 0.1 + 0.2))
    assert alike.low == pytest.approx(-alike.high)
    assert alike.high == pytest.approx(1 - 0.025 ** (1 / problems))
    assert alike.p == 1.0
    assert math.isnan(paired_difference(np.ones(problems), np.zeros(problems), np.inf).low)
    single = paired_difference([1.0], [0.0])
    assert all(math.isnan(number) for number in single[1:5])


@pytest.mark.parametrize("amount", [0.01, 0.1, 0.25, 0.4, 0.9, 1.0])
@pytest.mark.parametrize("problems", [2, 6, 12, 13, 17, 300])
@pytest.mark.parametrize("sign", [1, -1])
def test_p_and_the_interval_agree_where_all_problems_differ_by_the_same(
    amount: float, problems: int, sign: int
) -> None:
    """p is the level at which the interval begins to exclude 0."""
    found = paired_difference(np.full(problems, sign * amount), np.zeros(problems))
    assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
    share = 1 - (found.p / 2) ** (1 / problems)  # of the interval of the level p
    if found.p < 1:
        assert amount - share * (1 + amount) == pytest.approx(0)


def test_whole_numbers_of_samples_may_be_floats_and_there_may_be_none() -> None:
    """As the counts in a table with missing values are."""
    n, c = np.array([16.0, 128.0]), np.array([3.0, 4.0])
    expected = [1 - comb(13, 4) / comb(16, 4), 1 - comb(124, 4) / comb(128, 4)]
    assert passk.pass_at_k(n, c, 4).tolist() == pytest.approx(expected)
    assert passk.pass_at_k([], [], 4).shape == (0,)
    with pytest.raises(ValueError, match="k must be an integer"):
        passk.mean_with_errors([], 0)
    with pytest.raises(ValueError, match="finite"):
        paired_difference([0.5, math.nan], [0.5, 0.5])


def test_p_and_the_interval_agree_where_few_problems_differ() -> None:
    """Five of 60 differ: p is that of sign flips, where the t-test's is .02."""
    first = np.where(np.arange(60) < 5, 1.0, 0.0)
    found = paired_difference(np.zeros(60), first)
    assert found.p == 2.0**-4
    assert found.high == 0.0
    low, _ = stats.ttest_rel(np.zeros(60), first).confidence_interval()
    assert found.low == pytest.approx(low)
    assert stats.ttest_rel(np.zeros(60), first).confidence_interval()[1] < 0
    assert paired_difference(first, np.zeros(60)).low == 0.0


def test_differences_of_bfloat16_that_vary_are_not_called_the_same() -> None:
    rng = np.random.default_rng(0)
    second = rng.random(2000)
    first = second + 0.01 + 0.02 * rng.standard_normal(2000)
    rounded = [torch.tensor(side, dtype=torch.bfloat16) for side in (first, second)]
    assert not paired_difference(*rounded).alike
    same = torch.tensor(second, dtype=torch.bfloat16)
    assert paired_difference(same + 0.25, same).alike


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e12])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_counts_as_the_same_difference_follows_size_and_precision(
    scale: float, dtype: Any
) -> None:
    """Max@k of rewards in other units: its rounding errors grow with it."""
    second = dtype(scale) * np.random.default_rng(0).random(9).astype(dtype)
    first = second + dtype(scale / 3)
    assert np.ptp(first - second) > 0
    found = paired_difference(first, second, math.inf)
    assert found.alike
    assert math.isnan(found.low)
    assert found.p == 2.0**-8
    first[0] += scale * 1e-3
    assert not paired_difference(first, second, math.inf).alike
    equal = paired_difference(first, first, math.inf)
    assert equal.alike
    assert equal.p == 1


def test_that_interval_covers_95_percent() -> None:
    """A share of problems differs by 1 and the others by -1; all that were drawn differ by 1."""
    rng = np.random.default_rng(0)
    for share in (0.7, 0.9, 0.98):
        covered = []
        for _ in range(2000):
            first = np.where(rng.random(20) < share, 1.0, 0.0)
            if first.all():
                found = paired_difference(first, 1 - first)
                covered.append(found.low <= 2 * share - 1 <= found.high)
            else:
                covered.append(True)
        assert np.mean(covered) >= 0.975


def test_curves_cross_where_their_exact_formulas_do() -> None:
    """One model solves each problem with .3, the other half of them with .9: 1-.7^k and .5."""
    ks = np.arange(1, 9)
    narrow = np.where(np.arange(200)[:, None] % 2, 1 - 0.1**ks, 0.0)
    wide = np.broadcast_to(1 - 0.7**ks, (200, 8))
    found = crossing(narrow, wide)
    # At k = 1: .45 and .3; at k = 2: .495 and .51.
    assert found.k == pytest.approx(1 + 0.15 / (0.15 + 0.015))
    assert found.low < found.k < found.high
    assert crossing(wide, narrow) == found
    assert crossing(wide[:, :1], narrow[:, :1]).k == math.inf
    assert math.isnan(crossing(wide, wide).k)


def crossing_of(curve: list[Fraction]) -> float:
    """By the definition: the first sign change downwards, on the line between two k."""
    for k, value in enumerate(curve, start=1):
        if value < 0 and k == 1:
            return 1.0
        if value < 0:
            before = curve[k - 2]
            return float(k - 1 + before / (before - value))
    return math.inf


@pytest.mark.parametrize("seed", range(6))
def test_a_crossing_and_its_interval_are_those_of_resampled_problems(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problems, ks, resamples = 7, 5, 40
    tenths = rng.integers(-3, 8, (problems, ks)) - 2 * np.arange(ks)
    exact = [[Fraction(int(value), 10) for value in row] for row in tenths]

    def mean(places: list[int]) -> list[Fraction]:
        return [sum(exact[i][k] for i in places) / Fraction(problems) for k in range(ks)]

    drawn = np.random.default_rng(seed).integers(problems, size=(resamples, problems))
    of_all = sorted(crossing_of(mean(places)) for places in drawn.tolist())
    found = crossing(tenths / 10, np.zeros((problems, ks)), resamples, seed)
    assert found.k == pytest.approx(crossing_of(mean([*range(problems)])))
    # The 1st and the 39th of 40: the smallest values up to which 2.5 and 97.5 % lie.
    assert (found.low, found.high) == pytest.approx((of_all[0], of_all[38]))
    behind = crossing(np.zeros((problems, ks)), tenths / 10, resamples, seed)
    assert behind == pytest.approx(found)


def test_equal_curves_at_small_k_do_not_decide_who_is_ahead() -> None:
    first = np.array([[0.0, 1e-12, -0.3, -0.2, 0.2]])
    found = crossing(first + 0.5, np.full((1, 5), 0.5))
    assert found.k == pytest.approx(4.5)  # ahead is the second, from k = 3 on
    larger = crossing(1e12 * first + 1e12, np.full((1, 5), 1e12))
    assert larger.k == pytest.approx(4.5)


def test_the_interval_of_a_crossing_covers_95_percent() -> None:
    """The same two models, with 16 samples of each of 60 problems drawn from both kinds."""
    rng = np.random.default_rng(1)
    truth, covered = 1 + 0.15 / 0.165, []
    for repeat in range(150):
        chances = np.where(rng.random(60) < 0.5, 0.9, 0.0)
        narrow = curve(16, rng.binomial(16, chances))
        wide = curve(16, rng.binomial(16, 0.3, 60))
        found = crossing(narrow, wide, resamples=400, seed=repeat)
        covered.append(found.low <= truth <= found.high)
    assert np.mean(covered) >= 0.9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: estimates([[0, 1], [1]], 2), "rewards of problem 1 have the shape"),
        (lambda: estimates([[0, 0.5]], 1), "rewards of problem 0 must be 0 or 1"),
        (lambda: estimates([[0, 1]], 1, "best"), "metric 'best'; allowed: pass_at_k"),
        (
            lambda: paired_difference([1, 0], [1]),
            "estimates need 1 axes and the same shape, got (2,) and (1,)",
        ),
        (
            lambda: crossing([1, 0], [1, 0]),
            "estimates need 2 axes and the same shape, got (2,) and (2,)",
        ),
        (lambda: pass_at_k_weights([0.5, 1], 1), "rewards must be 0 or 1"),
        (lambda: pass_at_k_weights([0, 1], 3), "k = 3 with n = 2"),
        (lambda: max_at_k_weights([0, math.nan], 1), "must be finite"),
    ],
)
def test_bad_input_is_one_line(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        call()
    assert "\n" not in str(error.value)
