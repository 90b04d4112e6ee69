"""The sentences of the pages of the config's studies, on planted results and on their opposite."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
import pytest

from rspo.analysis import pages, studies
from rspo.analysis.results import row_of, with_p_values, write_comparisons
from rspo.analysis.write import study_contents
from rspo.config.experiment import Experiment
from rspo.evaluation.statistics import Estimate
from tests.support import ROOT

Row = dict[str, Any]
M = pages.MINUS
ABOVE = {"estimate": 0.03, "p_adjusted": 0.001, "p_tie_adjusted": 0.9}
BELOW = {"estimate": -0.03, "p_adjusted": 0.001, "p_tie_adjusted": 0.9}
TIE = {"estimate": 0.004, "p_adjusted": 0.5, "p_tie_adjusted": 0.001}
OPEN = {"estimate": -0.01, "p_adjusted": 0.5, "p_tie_adjusted": 0.5}
# The studies that have a template of their own.
OWN_PAGES = [
    "learning_rates",
    "own_rates",
    "need_a_k",
    "remedies",
    "overtake",
    "peers",
    "knobs",
    "wrong_verdicts",
    "passes",
    "open_choices",
]


@cache
def shipped() -> Experiment:
    return Experiment.load("tiny", root=ROOT)


@cache
def lines_of(name: str) -> tuple[studies.Method, ...]:
    return tuple(studies.lines_of(shipped(), name))


@cache
def compared(name: str) -> tuple[studies.Method, ...]:
    """The lines that a study compares: if it chooses, each method once, at lr-same if any."""
    lines = lines_of(name)
    if not shipped().config.studies[name].choose_by_pass_at:
        return lines
    by_method = {line.objective_k_n: line for line in lines}
    shared = {line.objective_k_n: line for line in lines if line.variant == "lr-same"}
    return tuple((by_method | shared).values())


@cache
def planned(name: str) -> tuple[studies.Comparison, ...]:
    return tuple(studies.planned(shipped().of_study(name), name, compared(name)))


def page(
    folder: Path,
    name: str,
    result: Callable[[Row], Row],
    logged: Callable[[Row], Row] = lambda _: {},
    levels: Mapping[str, float] = MappingProxyType({}),
) -> str:
    """The page of a study.

    Args:
        result: what the tests show of a difference.
        logged: the columns of a method and variant beside those that every study has.
        levels: Pass@k by variant, at every k; 0.5 for others.
    """
    experiment = shipped()
    study = experiment.config.studies[name]
    rows = []
    for one in planned(name):
        level = levels.get(one.variant, 0.5)
        row = row_of(one, Estimate(level, 0.01, 0.01, 0.01, 4.0, 5), 890, 128)
        rows.append(row | {"outcome": ""})
    rows = with_p_values(rows, name)
    for row in rows:
        if row["family"]:
            row |= result(row)
            # Templates adjust p-values over several families together.
            row |= {"p_computed": row["p_adjusted"], "p_tie": row["p_tie_adjusted"]}
            row |= {"low": row["estimate"] - 0.01, "high": row["estimate"] + 0.01}
    table = write_comparisons(folder / "table.csv", rows)
    methods = []
    for line in lines_of(name):
        method: Row = {
            "method": line.label,
            "objective": line.objective,
            "trained_k": line.k,
            "n": line.n,
            "variant": line.variant,
            "chosen": "yes" if line in compared(name) else "no",
            "setting": "a = 1",
            "instead_of": "",
            "learning_rate": 2e-4,
            "at_edge": "no",
            "chosen_at": "1 2 4 8 16" if line in compared(name) else "",
            "best_at": "",
        }
        for k in experiment.config.evaluation.k:
            method[f"validation_at_{k}"] = 0.5
        for column in ("late_entropy", "zero_weight", "cpu_seconds", "correct", "accepted_wrong"):
            method[column] = 0.25
        methods.append(method | logged(method))
    contents = study_contents(experiment, name, table, pd.DataFrame(methods))
    contents |= {"origins": {}, "bases": ["small 0123abcd"]}
    assert study.page is not None
    return pages.render(ROOT / study.page, contents)


def curves(method: Row) -> Row:
    """The columns of regret and crossing, with the same numbers for every method."""
    numbers: Row = {"crossing_rises": 1.0, "regret_at": 4}
    for name in ("regret", "mean_regret", "excess_regret", "crossing", "crossing_seed0"):
        numbers |= {name: 0.05, f"{name}_low": 0.04, f"{name}_high": 0.06}
    return numbers


@pytest.mark.parametrize("name", OWN_PAGES)
def test_every_page_can_be_made_from_any_result(tmp_path: Path, name: str) -> None:
    assert {entry.page for entry in shipped().config.studies.values()} == {
        f"docs/studies/{study}.md.jinja" for study in OWN_PAGES
    }
    for result in (ABOVE, BELOW, TIE, OPEN):
        text = page(tmp_path, name, lambda _, shown=result: shown, curves)
        assert text.startswith(f"# {shipped().config.studies[name].title}\n")
        assert "nan" not in text


def test_pages_say_that_one_seed_chooses_on_the_validation_split(tmp_path: Path) -> None:
    rule = "One training seed, seed 0, chooses on the validation split: of the rates that are at "
    rule += "most 1 point below the best one, the lowest"
    for name in ("own_rates", "need_a_k", "peers"):
        text = " ".join(page(tmp_path, name, lambda _: OPEN, curves).split())
        assert rule + " ([all rates](learning_rates.md))." in text
    assert rule + "." in " ".join(page(tmp_path, "learning_rates", lambda _: OPEN).split())


# --- remedies ------------------------------------------------------------------------------------


def first_sentence(text: str) -> str:
    """The first bold sentence of a page."""
    return " ".join(text.split("**")[1].split())


def remedies(folder: Path, gap: Row, best: float, change: Row = OPEN) -> str:
    """The first sentence, with this gap at Pass@8 and this difference with the best remedy.

    Args:
        change: what every remedy does to the method itself.
    """

    def result(row: Row) -> Row:
        if row["family"].startswith("remedies of"):
            return change
        if "against RSPO" not in row["family"] or row["k"] != "8":
            return OPEN
        if row["variant"] == "default":
            return gap
        return OPEN | {"estimate": best if row["variant"] == "averaged-0.5" else -0.2}

    return first_sentence(page(folder, "remedies", result))


@pytest.mark.parametrize(
    ("gap", "best", "sentence"),
    [
        (BELOW, -0.012, f"is {M}3.0 ({M}4.0 to {M}2.0) points; the best remedy, "
         "averaged-0.5, closes 60 % of it, by a change that is not significant, and leaves "
         f"{M}1.2"),
        (BELOW, 0.01, "the best remedy, averaged-0.5, closes all of it, by a change that is not "
         "significant, and leaves +1.0"),
        (BELOW, -0.05, f"no remedy narrows it; the best one, averaged-0.5, leaves {M}5.0"),
        (ABOVE, 0.04, "is +3.0 (+2.0 to +4.0) points; no gap is shown that a remedy "
         "could close; with the best one, averaged-0.5, it is +4.0"),
        (OPEN, 0.0, "(not resolved) points; no gap is shown that a remedy could close"),
        (TIE, 0.0, "(a tie) points; no gap is shown that a remedy could close"),
    ],
)  # fmt: skip
def test_a_remedy_closes_a_gap_only_if_there_is_one(
    tmp_path: Path, gap: Row, best: float, sentence: str
) -> None:
    assert sentence in remedies(tmp_path, gap, best)


def test_the_change_behind_a_smaller_gap_is_called_open_only_if_it_is(tmp_path: Path) -> None:
    said = remedies(tmp_path, BELOW, -0.012, change=ABOVE)
    assert f"averaged-0.5, closes 60 % of it and leaves {M}1.2" in said


# --- overtake ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "beginning"),
    [
        (
            0.998,
            "At the shared learning rate, the larger the k of training, the later the base model",
        ),
        (
            0.98,
            "The k of evaluation at which the base model overtakes the trained one at the shared",
        ),
        (
            0.02,
            "The k of evaluation at which the base model overtakes the trained one at the shared",
        ),
    ],
)
def test_an_order_of_crossings_needs_nearly_all_resamples(
    tmp_path: Path, share: float, beginning: str
) -> None:
    """That of RSPO k=8 is about the whole order; the estimates themselves rise."""

    def logged(method: Row) -> Row:
        numbers = curves(method)
        for key in ("crossing", "crossing_low", "crossing_high"):
            numbers[key] = 20 * method["trained_k"] if method["trained_k"] else 10
        if method["trained_k"] == 8:
            numbers["crossing_rises"] = share
        return numbers

    text = page(tmp_path, "overtake", lambda _: OPEN, logged)
    assert first_sentence(text).startswith(beginning)
    assert f"in {100 * share:.1f} % of the resamples" in text


def test_a_crossing_above_the_largest_k_has_no_number(tmp_path: Path) -> None:
    """That of RSPO k=8, and the upper end of that of policy gradient."""

    def logged(method: Row) -> Row:
        numbers = curves(method) | {"crossing": 12.0, "crossing_low": 9.0, "crossing_high": 15.0}
        if method["method"] == "PG":
            numbers["crossing_high"] = float("inf")
        if method["trained_k"] == 8:
            numbers |= {"crossing": float("inf"), "crossing_high": float("inf")}
        return numbers

    text = page(tmp_path, "overtake", lambda _: OPEN, logged)
    largest = max(shipped().of_study("overtake").config.evaluation.k)
    first = first_sentence(text)
    assert f"12 (9 to above {largest}) for PG," in first
    assert f"above {largest} (9 to above {largest}) for RSPO k=8; 12 (9 to 15) for MaxRL" in first
    assert "times the k of training" not in text
    assert (
        "The intervals of PG, PG (lr-third), RSPO k=8, RSPO k=8 (lr-third) do not exclude that the "
        f"base model never overtakes up to Pass@{largest}."
    ) in " ".join(text.split())
    assert "inf" not in text


# --- learning_rates and own_rates ----------------------------------------------------------------

RATES = {"lr-third": 6.7e-5, "lr-same": 2e-4, "lr-triple": 6e-4}


def test_choices_of_a_rate_are_counted_at_each_k(tmp_path: Path) -> None:
    """The lowest is chosen at Pass@16, where the highest is better, and the middle elsewhere."""
    chosen = {"lr-third": "16", "lr-same": "1 2 4 8", "lr-triple": ""}
    best = {"lr-third": "", "lr-same": "1 2 4 8", "lr-triple": "16"}

    def logged(method: Row) -> Row:
        variant = method["variant"]
        columns = {"chosen_at": chosen[variant], "best_at": best[variant]}
        columns["chosen"] = "yes" if chosen[variant] else "no"
        columns["at_edge"] = "no" if variant == "lr-same" else "yes"
        return columns | {"learning_rate": RATES[variant]}

    text = " ".join(page(tmp_path, "learning_rates", lambda _: OPEN, logged).split())
    methods = len({line.label for line in lines_of("learning_rates")})
    assert (
        f"for 0 of {methods} methods at Pass@1 and for 0 at Pass@16, and the lowest for 0 at Pass@1"
        in text
    )
    assert f"the lowest for 0 at Pass@1 and {methods} at Pass@16 (" in text
    assert f"0.0002 in {4 * methods}, 0.0006 in 0 of {5 * methods};" in text
    assert (
        f"is the highest for 0 at Pass@1 and {methods} at Pass@16, and the lowest for 0 and 0."
        in text
    )
    assert f"The chosen rate is not the best one in {methods} choices." in text
    assert f"For {methods} of the {5 * methods} pairs of a method and a k, the best rate" in text


def test_own_rates_say_where_rspo_is_not_above_and_where_a_choice_is_worse(tmp_path: Path) -> None:
    def result(row: Row) -> Row:
        return OPEN if "against GRPO" in row["family"] else ABOVE

    text = " ".join(page(tmp_path, "own_rates", result).split())
    found = ", ".join(f"GRPO at Pass@{k}" for k in (2, 4, 8))
    assert f"At own rates, RSPO is not significantly above {found}." in text
    assert "Another rate than the shared one is chosen for no method." in text
    assert "has less than the shared one" not in text

    def logged(method: Row) -> Row:
        if method["method"] != "Baseline k=4":
            return {}
        is_third = method["variant"] == "lr-third"
        return {"chosen": "yes" if is_third else "no", "chosen_at": "4" if is_third else ""}

    levels = {"lr-third": 0.3, "lr-same": 0.5}
    text = " ".join(page(tmp_path, "own_rates", result, logged, levels).split())
    assert "is chosen for Baseline k=4 (0.0002 at Pass@4)." in text
    worse = "has less than the shared one, by the estimates, for Baseline k=4 at Pass@4 (30.0 "
    assert f"{worse}instead of 50.0 %)." in text


# --- need_a_k ------------------------------------------------------------------------------------


def need_a_k(folder: Path, regret: dict[str, float], low: float = 0.01) -> str:
    """The page, with these regrets by objective and k; 0.3 for others."""

    def logged(method: Row) -> Row:
        key = method["method"]
        value = regret.get(key, 0.3)
        numbers = curves(method) | {"regret": value, "excess_regret": value - min(regret.values())}
        return numbers | {"excess_regret_low": low}

    return " ".join(page(folder, "need_a_k", lambda _: OPEN, logged).split())


def test_the_best_fixed_k_may_be_that_of_policy_gradient(tmp_path: Path) -> None:
    text = need_a_k(tmp_path, {"PG": 0.02, "MaxRL": 0.05})
    assert "MaxRL at 0.0002, which has no k, is at most 5.0" in text
    assert (
        "RSPO with the best single k and rate, k = 1 (policy gradient) at 0.0002, is at most 2.0"
        in text
    )
    assert "The regret of MaxRL is larger by 3.0" in text
    text = need_a_k(tmp_path, {"RSPO k=4": 0.06, "MaxRL": 0.05}, low=-0.01)
    assert "RSPO with the best single k and rate, RSPO k=4 at 0.0002, is at most 6.0" in text
    assert "The regret of RSPO k=4 is larger by 1.0" in text
    assert "and the interval includes 0. Both regrets are those at k = 4." in text
    assert "RSPO was trained with k = 2, 4, 8 and 16 only." in text
    assert "Both, the best of 8 pairs of k and rate and the" in text


def test_an_objective_without_a_k_is_compared_with_the_rspo_of_the_k_of_evaluation(
    tmp_path: Path,
) -> None:
    """The one whose regret is the smallest at the rate that validation chooses."""

    def result(row: Row) -> Row:
        if "against the RSPO" not in row["family"]:
            return OPEN
        if row["method_a"] != "MaxRL":
            return ABOVE
        return {"1": BELOW, "16": ABOVE}.get(row["k"], TIE)

    def logged(method: Row) -> Row:
        return curves(method) | {"regret": 0.02 if method["method"] == "MaxRL" else 0.3}

    text = " ".join(page(tmp_path, "need_a_k", result, logged).split())
    tie = f"+0.4 ({M}0.6 to +1.4) (a tie)"
    assert (
        f"(policy gradient at k = 1), MaxRL has in points {M}3.0 ({M}4.0 to {M}2.0) at Pass@1, "
        f"{tie} at Pass@2, {tie} at Pass@4, {tie} at Pass@8, +3.0 (+2.0 to +4.0) at Pass@16, "
        "each at the rate"
    ) in text


def test_pages_say_where_n_is_smaller_than_the_paper_advises(tmp_path: Path) -> None:
    few = "RSPO k=16 has n = 16 responses to a prompt, fewer than the 2 k that the paper advises."
    for name in ("need_a_k", "peers"):
        text = page(tmp_path, name, lambda _: OPEN, curves)
        assert text.count("than the 2 k that the paper advises") == 1
        assert few in text


# --- peers ---------------------------------------------------------------------------------------


def test_the_edge_of_the_grid_is_named_only_where_a_rate_at_the_edge_is_chosen(
    tmp_path: Path,
) -> None:
    text = page(tmp_path, "peers", lambda _: OPEN)
    assert "a rate outside may be better" not in text
    text = page(
        tmp_path,
        "peers",
        lambda _: OPEN,
        lambda method: {"at_edge": "yes", "best_at": "1 16" if method["method"] == "MaxRL" else ""},
    )
    methods = {line.label for line in lines_of("peers")}
    assert f"In 2 of {5 * len(methods)} choices of a rate, one for each method and k," in text
    assert "is the best one and the lowest or the highest of [the grid](learning_rates.md):" in text


def test_objectives_above_and_below_rspo_are_counted_at_each_k(tmp_path: Path) -> None:
    def result(row: Row) -> Row:
        if row["method_a"] == "MaxRL":
            return ABOVE if row["k"] == "16" else BELOW
        return OPEN

    text = page(tmp_path, "peers", result)
    others = len({line.label for line in lines_of("peers") if not line.label.startswith("RSPO k")})
    assert f"against RSPO k=16: none of {others} significantly below; 1 above: MaxRL (+3.0)" in text
    assert (
        f"against RSPO k=8: 1 of {others} significantly below: MaxRL ({M}3.0); none above" in text
    )
    assert f"The best RSPO with another k: RSPO k=2, {M}1.0 ({M}2.0 to 0.0) (not resolved)." in text
    quoted = text.partition("**")[2].partition("**")[0]
    assert quoted.startswith(f"Of {others} other methods (")
    below = "1, 1, 1 and none are significantly below the RSPO that is trained for the k of"
    assert f"{below} evaluation at Pass@2, 4, 8 and 16, none ties with it within" in quoted
    assert "and none, none, none and 1 are above (" in quoted
    assert f"At Pass@1, 1 of {others - 1} are significantly below policy gradient, and none" in text
    # Policy gradient is what is subtracted at Pass@1.
    assert f"Pass@1, against policy gradient: 1 of {others - 1} significantly below" in text


# --- knobs and wrong verdicts --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (BELOW, "RSPO has significantly more at 2 of these 2 k, and the baseline at none."),
        (ABOVE, "RSPO has significantly more at none of these 2 k, and the baseline at 2."),
        (OPEN, "RSPO has significantly more at none of these 2 k, and the baseline at none."),
    ],
)
def test_what_ten_times_the_prompts_are_worth_follows_from_the_tests(
    tmp_path: Path, shown: Row, words: str
) -> None:
    assert words in page(tmp_path, "knobs", lambda _: shown)


def test_knobs_that_raise_pass_at_16_are_those_whose_test_says_so(tmp_path: Path) -> None:
    def result(row: Row) -> Row:
        if "knobs of policy gradient" in row["family"] and row["variant"] == "lr-third":
            return ABOVE if row["family"].endswith("Pass@16") else BELOW
        return TIE

    rows = [one for one in planned("knobs") if one.family == "knobs of policy gradient, Pass@16"]
    text = " ".join(page(tmp_path, "knobs", result).split())
    assert (
        f"1 of {len(rows)} knobs raises Pass@16 of policy gradient significantly, in points, with "
        f"the change of Pass@1: lr-third +3.0 (+2.0 to +4.0) and {M}3.0 ({M}4.0 to {M}2.0)."
    ) in text
    text = " ".join(page(tmp_path, "knobs", lambda _: TIE).split())
    assert f"None of {len(rows)} knobs raises Pass@16 of policy gradient significantly." in text
    text = " ".join(page(tmp_path, "knobs", lambda _: BELOW).split())
    assert f"{len(rows)} are significantly below 0: lr-third, {M}3.0 ({M}4.0 to {M}2.0)" in text


def test_settings_that_have_less_of_both_than_a_k_of_rspo_are_counted(tmp_path: Path) -> None:
    """Where RSPO with a k that falls is ahead, no k of RSPO is."""
    levels = {"lr-triple": 0.3, "annealed": 0.9}
    text = " ".join(page(tmp_path, "knobs", lambda _: OPEN, levels=levels).split())
    settings = [line for line in lines_of("knobs") if line.objective == "policy_gradient"]
    assert (
        f"Of {len(settings)} settings of policy gradient, 1 has less of both Pass@1 and Pass@16 "
        "than some k of RSPO; of 3 k of RSPO, none has less of both"
    ) in text


def test_how_many_wrong_responses_are_accepted_is_what_the_logs_say(tmp_path: Path) -> None:
    def logged(method: Row) -> Row:
        accepted = {"fixed-0.1": 0.031, "accepts-0.02": 0.012}.get(method["variant"], 0.5)
        return {"accepted_wrong": accepted, "correct": 0.625 if method["trained_k"] else 0.42}

    text = page(tmp_path, "wrong_verdicts", lambda _: OPEN, logged)
    assert "responses wrongly: 3.1 % for PG, 3.1 % for RSPO k=4, 3.1 % for RSPO k=8;" in text
    assert "random errors in 2 % of the wrong ones: 1.2 % for PG," in text
    assert "without errors, 42.0 % for PG, 62.5 % for RSPO k=4, 62.5 % for RSPO k=8 of the" in text
    assert "most responses" not in text
