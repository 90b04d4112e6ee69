"""`rspo.diagnose` against enumeration of all groups in exact fractions, and `check_weights`."""

import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rspo
from rspo.cli import main
from rspo.objectives import OBJECTIVES, assert_unbiased, response_weights
from rspo.objectives.diagnose import Form, diagnose
from tests.support import ROOT

Floats = NDArray[np.float64]

P = [Fraction(i, 8) for i in range(9)]


def cases(ns: tuple[int, ...]) -> list[Any]:
    return [
        pytest.param(objective, k, n, id=f"{objective}-k{k}-n{n}")
        for objective, n in product(OBJECTIVES, ns)
        for k in (1, 2, 3)
        if OBJECTIVES[objective].allows(k, n) and (OBJECTIVES[objective].has_k or k == 1)
    ]


def enumerated(weights: Floats, rewards: Floats, p: Fraction) -> tuple[Fraction, ...]:
    """Over all groups: E[g], Var[g], and expected fraction of zeros and weights of either kind."""
    mean = square = zeros = correct = wrong = Fraction(0)
    for group, of_group in zip(rewards.tolist(), weights.tolist(), strict=True):
        chance = Fraction(1)
        for reward in group:
            chance *= p if reward else 1 - p
        gradient = sum(
            (Fraction(w) * (int(r) - p) for w, r in zip(of_group, group, strict=True)),
            start=Fraction(0),
        )
        mean, square = mean + chance * gradient, square + chance * gradient**2
        zeros += chance * Fraction(sum(abs(w) < 1e-12 for w in of_group), len(group))
        of_correct = sum(Fraction(w) * int(r) for w, r in zip(of_group, group, strict=True))
        correct += chance * of_correct
        wrong += chance * (sum(map(Fraction, of_group)) - of_correct)
    return mean, square - mean**2, zeros, correct, wrong


@pytest.mark.parametrize(("objective", "k", "n"), cases((3, 6)))
def test_the_numbers_are_those_of_all_groups_in_exact_fractions(
    objective: str, k: int, n: int
) -> None:
    rewards = np.array(list(product((0.0, 1.0), repeat=n)))
    weights = response_weights(rewards, objective, k)
    centred = weights - weights.mean(axis=1, keepdims=True)
    centred[abs(centred) < 1e-15] = 0.0  # rounding errors of the mean
    deviations = weights.std(axis=1, ddof=1, keepdims=True)
    standardized = centred / (n * deviations + 1e-6)
    found = diagnose(objective, k, n, [float(p) for p in P])
    forms = (found.weights, found.centred, found.standardized)
    for form, of_form in zip(forms, (weights, centred, standardized), strict=True):
        for i, p in enumerate(P):
            mean, variance, zeros, correct, wrong = enumerated(of_form, rewards, p)
            if 0 < p < 1:
                slope = float(mean / (p * (1 - p)))
                assert form.slope[i] == pytest.approx(slope, rel=1e-9, abs=1e-10)
            assert form.variance[i] == pytest.approx(float(variance), rel=1e-9, abs=1e-12)
            assert form.zeros[i] == pytest.approx(float(zeros), rel=1e-9, abs=1e-12)
            totals = form.correct[i], form.wrong[i]
            assert totals == pytest.approx((float(correct), float(wrong)), rel=1e-9, abs=1e-12)
            if variance > 1e-20:
                ratio = float(mean**2 / variance)
                assert form.signal_to_noise[i] == pytest.approx(ratio, rel=1e-8, abs=1e-12)
            else:
                assert np.isnan(form.signal_to_noise[i])


@pytest.mark.parametrize(("objective", "k", "n"), cases((6,)))
def test_value_is_the_integral_of_the_slope(objective: str, k: int, n: int) -> None:
    nodes, shares = np.polynomial.legendre.leggauss(12)  # exact for polynomials up to degree 23
    for end in (0.1, 0.5, 1.0):
        for name in ("weights", "centred", "standardized"):
            inside: Form = getattr(diagnose(objective, k, n, end * (nodes + 1) / 2), name)
            integral = float(inside.slope @ shares) * end / 2
            value = getattr(diagnose(objective, k, n, [0.0, end]), name).value
            assert value == pytest.approx([0.0, integral], rel=1e-11, abs=1e-13)


@pytest.mark.parametrize(
    ("objective", "k", "expected"),
    [
        ("policy_gradient", None, (1, 1.0)),
        ("rspo_pass_at_k", 4, (4, 1.0)),
        ("rspo_max_at_k", 4, (4, 1.0)),
        ("hitchhiking", 4, (4, 1.0)),
        ("pkpo_s", 3, (3, 1.0)),
        ("pkpo_s_loo", 3, (3, 1.0)),
        ("maxpo", 7, (7, 1.0)),
        ("ordergrad_top_half", 2, (2, 1.0)),  # the best of two
        ("ordergrad_median", 1, (1, 1.0)),
        ("w_reinforce", None, (1, 1.1)),
        ("grpo_passk", None, (8, 1 / (8**-0.5 + 1e-6) / 8)),
        ("rspo_max_at_k_plug_in", 4, (1, 4.0)),
        ("rspo_pass_at_k_plug_in", 4, None),
        ("ordergrad_bottom_half", 4, None),
        ("grpo", None, None),
        ("ttt_entropic", None, None),
    ],
)
def test_which_pass_at_k_each_objective_is_unbiased_for(
    objective: str, k: int | None, expected: tuple[int, float] | None
) -> None:
    form = diagnose(objective, k, 8).weights
    if expected is None:
        assert form.unbiased_for is None
    else:
        assert (form.unbiased_for, form.factor) == (expected[0], pytest.approx(expected[1]))


@pytest.mark.parametrize(("objective", "k", "n"), cases((6, 16)))
def test_a_mixture_of_pass_at_j_is_the_function_that_is_maximized(
    objective: str, k: int, n: int
) -> None:
    found = diagnose(objective, k, n)
    for form in (found.weights, found.centred, found.standardized):
        if form.mixture is not None:
            terms = (a * (1 - (1 - found.p) ** j) for j, a in form.mixture.items())
            assert form.value == pytest.approx(sum(terms, start=0 * found.p), abs=1e-5)


@pytest.mark.parametrize(
    ("objective", "k", "n", "expected"),
    [
        ("tailrl", None, 20, {j: 1 / j for j in range(1, 21)}),
        ("tailrl_centred", None, 16, {j: 1 / j for j in range(1, 16)}),
        ("maxrl", None, 16, {j: 1 / j for j in range(1, 16)}),
        ("maxrl_uncentred", None, 16, {j: 1 / j for j in range(1, 17)}),
        ("ordergrad_top_half", 3, 12, {2: 1.5, 3: -0.5}),
        ("ordergrad_median", 3, 12, {2: 3.0, 3: -2.0}),
        ("ordergrad_bottom_half", 3, 16, {1: 1.5, 3: -0.5}),
        ("rspo_pass_at_k", 4, 21, None),  # not computed for large groups
        ("grpo", None, 16, None),
    ],
)
def test_mixtures_are_exact(
    objective: str, k: int | None, n: int, expected: dict[int, float] | None
) -> None:
    found = diagnose(objective, k, n).weights.mixture
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-6))


@pytest.mark.parametrize(("dtype", "largest"), [("float16", 2), ("float32", 12), ("float64", 20)])
def test_a_mixture_is_told_where_its_terms_are_known_to_half_a_percent(
    dtype: str, largest: int
) -> None:
    for n in range(2, 22):
        mixture = diagnose(
            lambda r, k: response_weights(r, "maxrl", k).astype(dtype), 1, n
        ).weights.mixture
        assert (mixture is not None) == (n <= largest)
        if mixture is not None:
            assert mixture == pytest.approx({j: 1 / j for j in range(1, n)}, rel=0.02)


@pytest.mark.parametrize(("share", "nothing"), [(0.9e-9, True), (1.1e-9, False)])
def test_what_is_rounding_of_the_weights_is_no_mixture(share: float, nothing: bool) -> None:
    """For n <= 16, up to 1e-9 of the largest weight."""

    def nearly_constant(rewards: Floats, k: int) -> Floats:
        return 1 + share * response_weights(rewards, "maxrl_uncentred", k)

    expected = {} if nothing else {j: pytest.approx(share / j, rel=1e-3) for j in range(1, 9)}
    assert diagnose(nearly_constant, 1, 8).weights.mixture == expected


def centred_pkpo(rewards: Floats, k: int) -> Floats:
    weights = response_weights(rewards, "pkpo_s", k)
    return weights - weights.mean(axis=-1, keepdims=True)


def test_assert_unbiased_names_the_k_that_work_and_what_is_maximized_instead() -> None:
    assert_unbiased(centred_pkpo, k=7, n=8)
    assert_unbiased(lambda rewards, k: 8 * marginal(rewards, k), k=3, n=8)  # advantages
    with pytest.raises(AssertionError) as error:
        assert_unbiased(centred_pkpo, k=8, n=8)
    assert "not unbiased for Pass@8 with n = 8; unbiased with k = 1, 2, 3" in str(error.value)
    assert "k = 8   maximizes nothing" in str(error.value)
    with pytest.raises(AssertionError, match="for Pass@4 with n = 32; with no k"):
        assert_unbiased("grpo", k=4, n=32)
    with pytest.raises(ValueError, match="maxpo cannot use k = 8 with n = 8"):
        assert_unbiased("maxpo", k=8, n=8)
    assert_unbiased("maxpo", k=4, n=8)  # though it has no k = 8


@pytest.mark.parametrize("k", [1, 2, 100, 511, 512])
def test_large_groups_are_accurate(k: int) -> None:
    found = diagnose("rspo_pass_at_k", k, 512)
    assert found.weights.value == pytest.approx(1 - (1 - found.p) ** k, abs=1e-10)
    assert found.weights.unbiased_for == k


def marginal(rewards: Floats, k: int) -> Floats:
    return response_weights(rewards, "rspo_pass_at_k", k)


@pytest.mark.promise("rspo.diagnose(my_weights, k=4, n=16)")
def test_a_function_of_ones_own_is_diagnosed_like_an_objective() -> None:
    own, ours = rspo.diagnose(marginal, k=3, n=8), rspo.diagnose("rspo_pass_at_k", k=3, n=8)
    assert own.name == "marginal"
    assert own.weights.unbiased_for == 3
    assert (own.centred.value == ours.centred.value).all()


def test_a_constant_factor_changes_only_the_factor() -> None:
    """Also a large or small one: it does not decide what counts as 0."""
    ours = rspo.diagnose("rspo_pass_at_k", 3, 8)
    for factor in (1e-9, 1e9):
        found = rspo.diagnose(lambda r, k, factor=factor: factor * marginal(r, k), 3, 8)
        assert found.weights.factor == pytest.approx(factor)
        for one, other in ((found.weights, ours.weights), (found.centred, ours.centred)):
            assert one.signal_to_noise == pytest.approx(other.signal_to_noise, nan_ok=True)
            assert one.zeros == pytest.approx(other.zeros)
            assert one.variance / factor**2 == pytest.approx(other.variance)


@pytest.mark.parametrize("factor", [1e-15, 1e15])
def test_units_of_the_weights_do_not_decide_what_is_maximized(factor: float) -> None:
    def scaled(rewards: Floats, k: int) -> Floats:
        return factor * response_weights(rewards, "maxrl", k)

    mixture = diagnose(scaled, 1, 8).weights.mixture
    assert mixture is not None
    assert mixture == pytest.approx({j: factor / j for j in range(1, 8)})
    nothing = diagnose(lambda r, k: factor * centred_pkpo(r, k), 8, 8)
    for form in (nothing.weights, nothing.centred):
        assert form.target == "maximizes nothing, F is 0"
        assert form.mixture == {}


# --- Errors, all of one line -------------------------------------------------------------------

Rule = Callable[[Floats, int], Any]


def in_place(rewards: Floats, k: int) -> Floats:
    rewards -= 1
    return rewards


OTHERS = "must not depend on the other groups"
ORDER = "must not depend on the order of the responses"
BROKEN: list[tuple[Any, str]] = [
    (lambda r, k: r / np.where(r.any(-1, keepdims=True), 1, np.nan), "finite weights, got nan at"),
    (lambda r, k: r.mean(axis=-1), "must return an array of shape (4, 3), got (4,)"),
    (lambda r, k: r.tolist(), "must return an array of shape (4, 3), got list"),
    (
        lambda r, k: r * np.arange(r.shape[-1]),
        f"{ORDER}, got [0, 0, 2] in place of [0, 0, 0] for [0, 0, 1]",
    ),
    (
        lambda r, k: r * (np.cumsum(r, -1) == 1),
        f"{ORDER}, got [0, 1, 0] in place of [0, 0, 1] for [0, 1, 1]",
    ),
    (lambda r, k: r - r.mean(), OTHERS),
    (lambda r, k: r * (1 + 0.01 * (r.shape[0] > 1)), OTHERS),
    (in_place, "must not change the rewards that it is given"),
    (lambda r, k: r + 0j, "must return real numbers, got dtype complex128"),
]
BROKEN_FOR_GRADED: list[tuple[Rule, str]] = [
    (lambda r, k: r + ((r > 0) & (r < 1)) * np.arange(r.shape[-1]), f"{ORDER}, got"),
    (lambda r, k: np.where(r < 0, np.nan, r), "must return finite weights, got nan at index"),
]


@pytest.mark.parametrize(("function", "message"), BROKEN)
def test_what_breaks_the_contract_is_an_error_that_names_the_group(
    function: Rule, message: str
) -> None:
    for call in (lambda: rspo.check_weights(function, 2, 3), lambda: rspo.diagnose(function, 2, 3)):
        with pytest.raises(ValueError, match=re.escape(message)) as error:
            call()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(("function", "message"), BROKEN_FOR_GRADED)
def test_functions_of_any_rewards_are_checked_with_graded_ones(
    function: Rule, message: str
) -> None:
    rspo.check_weights(function, 2, 8)
    with pytest.raises(ValueError, match=re.escape(message)):
        rspo.check_weights(function, 2, 8, binary=False)


@pytest.mark.parametrize("objective", [o for o in OBJECTIVES if o != "hitchhiking"])
@pytest.mark.parametrize("n", [3, 16, 512])
def test_every_objective_but_hitchhiking_keeps_the_contract(objective: str, n: int) -> None:
    chosen = OBJECTIVES[objective]
    rspo.check_weights(chosen.function, 2, n, binary=chosen.binary)


@pytest.mark.parametrize(("k", "n"), [(True, 4), (2.0, 4), (0, 4), (2, 4.0), (2, False)])
def test_the_contract_is_checked_for_integers_of_at_least_1(k: Any, n: Any) -> None:
    with pytest.raises(ValueError, match="must be an integer of at least 1"):
        rspo.check_weights(marginal, k, n)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing", 2, 4), "unknown objective 'nothing'"),
        (("MaxPO", 2, 4), "unknown objective .MaxPO.; did you mean maxpo?"),
        (("rspo_passk", 2, 4), "unknown objective .rspo_passk.; did you mean rspo_pass_at_k?"),
        (("maxpo", 4, 4), "maxpo cannot use k = 4 with n = 4"),
        (("maxpo", None, 4), "maxpo needs a k"),
        (("rspo_pass_at_k", 2, 0), "n must be an integer of at least 1, got 0"),
        (("rspo_pass_at_k", 2, 100_000), "n must be an integer from 1 to 1024, got 100000"),
        (("rspo_pass_at_k", 2, 8.0), r"n must be an integer of at least 1, got 8\.0"),
        ((5, 2, 8), "objective must be a name or a function, got 5"),
        (("ttt_entropic", None, 2), "ttt_entropic cannot use n = 2 .*; allowed: n >= 3$"),
        (("hitchhiking", 2, 18), "hitchhiking depends on the order of the responses"),
        (("rspo_pass_at_k", 2, 4, [0.5, 1.5]), "p must be a list of probabilities"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        diagnose(*arguments)


def test_importing_the_package_imports_no_numpy() -> None:
    script = (
        "import sys, rspo; assert 'numpy' not in sys.modules; rspo.diagnose; rspo.check_weights"
    )
    script += "; assert not {'torch', 'pandas', 'matplotlib'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


@pytest.mark.promise("rspo diagnose maxpo --k 4")
def test_the_command_prints_the_same(
    promised: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(promised) == 0
    first, _, rest = capsys.readouterr().out.partition("\n")
    assert first == "maxpo, k = 4, n = 16, 0/1 rewards"
    assert rest.strip() == str(diagnose("maxpo", 4, 16)).strip()


@pytest.mark.parametrize("p", [None, [0.3, 0.35]])
def test_the_printed_table_has_the_numbers_and_explains_each_of_its_columns(p: Any) -> None:
    found = diagnose("maxpo", 4, p=p)
    forms = (found.weights, found.centred, found.standardized)
    lines = str(found).splitlines()
    names = {name for line in lines[4:6] for name in line.split()} - {"weights"}
    assert names == {"centred", "standardized", "p", "F", "F'", "S/N", "zeros"}
    assert [name for name in names if name not in "".join(lines[-3:])] == []
    printed = [[float(cell.replace("%", "e-2")) for cell in row.split()] for row in lines[6:-3]]
    assert [row[0] for row in printed] == (p or [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9])
    for row in printed:
        i = int(np.argmin(abs(found.p - row[0])))
        cells = [(one.value[i], one.slope[i], one.signal_to_noise[i]) for one in forms]
        expected = [*cells[0], found.weights.zeros[i], *cells[1], *cells[2]]
        assert row[1:] == pytest.approx(expected, rel=5e-3, abs=6e-3)
