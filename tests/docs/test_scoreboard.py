"""docs/scoreboard.md is the page of its results, which are those of the formulas."""

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.scoreboard import SLOPES, N, page, plant
from benchmarks.scoreboard import __main__ as running
from benchmarks.scoreboard.child import found
from tests.support import ROOT

ROWS = page.results()
ENTRIES = yaml.safe_load(running.PROJECTS.read_text(encoding="utf-8"))
Advantages = Callable[[Any, int], Any]


def formulas() -> Any:
    """The module that reads docs/implementations.yaml."""
    path = ROOT / "docs" / "_hooks" / "implementations.py"
    spec = importlib.util.spec_from_file_location("formulas", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FORMULAS = formulas()
ALL_FORMULAS = {row["name"]: row for row in FORMULAS.rows()}


def advantages_of(formula: dict[str, Any]) -> Advantages:
    """The advantages of a formula: n times its weights."""
    weights = FORMULAS.weights(formula)

    def advantages(rewards: Any, k: int) -> Any:
        if not FORMULAS.accepts(formula, k, rewards.shape[-1]):
            raise ValueError("this k is not allowed")
        return rewards.shape[-1] * weights(rewards, k)

    return advantages


# --- The page ---------------------------------------------------------------------------------


def test_the_page_is_that_of_its_results() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page()
    assert page.RESULTS.read_text(encoding="utf-8") == page.as_text(ROWS)


def test_the_results_have_every_call_of_every_source_once() -> None:
    expected = []
    for entry in ENTRIES:
        for version in entry.get("versions") or [entry["commit"]]:
            expected += [(entry["project"], version, call["call"]) for call in entry["calls"]]
    assert [(row["project"], row["version"], row["call"]) for row in ROWS] == expected


def test_every_biased_call_without_a_k_has_a_correction_that_makes_it_right() -> None:
    biased = [row for row in ROWS if "none" in row["by_k"] and not page.is_right(row)]
    assert biased
    for row in biased:
        assert page.right_ks(row, "corrected") == ["none"], row


def test_a_correction_of_a_call_with_a_k_makes_more_k_right() -> None:
    corrected = [row for row in ROWS if "none" not in row["by_k"] and "correction" in row]
    assert corrected
    for row in corrected:
        assert set(page.right_ks(row)) < set(page.right_ks(row, "corrected"))


def test_calls_that_are_right_and_calls_that_are_not_are_both_there() -> None:
    assert {page.is_right(row) for row in ROWS} == {True, False}


# --- The running sources and the formulas in our words ----------------------------------------

# The name of a formula, and the project and the call whose source it describes.
SAME = {
    "verl, `grpo_passk`": ("verl", "`grpo_passk`"),
    "verl, `grpo`, for comparison": ("verl", "`grpo`"),
    "prime-rl, `max_rl`": ("prime-rl", "`max_rl`"),
    "PKPO's listing 1, `s`": ("PKPO's listing 1", "`s`"),
    "PKPO's listing 1, `sloo`": ("PKPO's listing 1", "`sloo`"),
    "PKPO's listing 1, `sloo_minus_one`": ("PKPO's listing 1", "`sloo_minus_one`"),
    "Pass@k Training": ("Pass@k Training", "`compute_advantage`"),
    "OrderGrad, `ReMax`": (
        "OrderGrad",
        "`lstat_advantage` of `ReMax` (its loss multiplies it by k)",
    ),
    "principled-bestofk, `MaxKLoss`": ("principled-bestofk", "`MaxKLoss`"),
}
RUN = [
    pytest.param(name, row, id=f"{name}, {row['version']}")
    for name, (project, call) in SAME.items()
    for row in ROWS
    if (row["project"], row["call"]) == (project, call)
]


@pytest.mark.parametrize(("name", "row"), RUN)
def test_a_running_source_maximizes_what_its_formula_does(name: str, row: dict[str, Any]) -> None:
    advantages = advantages_of(ALL_FORMULAS[name])
    for k, result in row["by_k"].items():
        expected = found(advantages, 1 if k == "none" else int(k))
        assert page.same(result, expected), (k, result, expected)


def test_every_formula_without_a_source_is_named_on_the_page() -> None:
    text = page.page()
    section = text[text.index("## Only as a formula") :].partition("\n## ")[0]
    for name in set(ALL_FORMULAS) - set(SAME):
        project = re.split(",|'", name)[0]
        assert project in section
    assert SLOPES == FORMULAS.SLOPES
    assert N == FORMULAS.N


# --- Faults in copies of the running sources ----------------------------------------------------


def test_a_fault_in_a_copy_of_each_source_was_found() -> None:
    for row in ROWS:
        assert page.fault_is_found(row), (row["project"], row["version"], row["call"])


def test_each_call_of_each_source_has_a_fault() -> None:
    for entry_ in ENTRIES:
        for call in entry_["calls"]:
            assert call["fault"]["text"] != call["fault"]["becomes"], call["call"]


PASS_AT_1 = {"j": 1, "slopes": [1.0, 1.0, 1.0], "mixture": {"1": 1.0}}
HALF_OF_IT = {"j": 1, "slopes": [0.5, 0.5, 0.5], "mixture": {"1": 0.5}}
BIASED = {"j": None, "slopes": [2.2, 1.7, 2.2], "mixture": None}
MORE_BIASED = {"j": None, "slopes": [2.2, 1.8, 2.2], "mixture": None}
UNEQUAL = {"refused": "weights must not depend on the order of the responses"}
ERROR = {"refused": "weights failed for rewards of shape (9, 8): ZeroDivisionError"}


@pytest.mark.parametrize(
    ("without", "with_fault", "expected"),
    [
        (PASS_AT_1, BIASED, True),
        (PASS_AT_1, HALF_OF_IT, False),  # a factor is a learning rate
        (PASS_AT_1, UNEQUAL, True),
        (PASS_AT_1, ERROR, False),
        (BIASED, MORE_BIASED, True),
        (BIASED, BIASED, False),
        (BIASED, PASS_AT_1, True),
        (UNEQUAL, PASS_AT_1, True),
        (UNEQUAL, UNEQUAL, False),
    ],
)
def test_a_fault_is_found_if_it_changes_what_is_maximized(
    without: dict[str, Any], with_fault: dict[str, Any], expected: bool
) -> None:
    row = {"meant": "Pass@1", "by_k": {"none": without}, "with_fault": {"none": with_fault}}
    assert page.fault_is_found(row) is expected


TO_PLANT = """
class Part:
    def of_group(self, rewards, é="-"):
        rewards = rewards - 1  # - not this one
        kept = (
            (rewards
             - 2) - 3
        )
        return kept - 4


def other(rewards):
    return rewards - 5
"""


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"number": 1}, "rewards = rewards * 1"),
        ({"number": 2}, "(rewards\n             * 2) - 3"),
        ({"number": 3}, "- 2) * 3"),
        ({"number": 4}, "return kept * 4"),
        ({"number": 2, "assigned": "kept"}, "- 2) * 3"),
        ({"number": 1, "function": "other"}, "return rewards * 5"),
        ({"number": 1, "text": "3", "becomes": "7"}, "- 2) - 7"),
    ],
)
def test_a_fault_is_planted_in_the_operator_or_number_of_this_place(
    changed: dict[str, Any], expected: str
) -> None:
    fault = {"function": "Part.of_group", "text": "-", "becomes": "*", **changed}
    code = plant.with_fault(TO_PLANT, fault)
    assert code.count(expected) == 1
    assert len(code) == len(TO_PLANT)
    assert sum(one != other for one, other in zip(code, TO_PLANT, strict=True)) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"number": 5}, "Part.of_group has - 4 times"),
        ({"text": "/"}, "Part.of_group has / 0 times"),
        ({"function": "Part.gone"}, "no Part.gone"),
    ],
)
def test_a_source_without_the_place_of_a_fault_is_an_error(
    changed: dict[str, Any], message: str
) -> None:
    fault = {"function": "Part.of_group", "text": "-", "becomes": "*", "number": 1, **changed}
    with pytest.raises(plant.NotPlanted, match=message):
        plant.with_fault(TO_PLANT, fault)


# --- Faults in the formulas -----------------------------------------------------------------------

# For each formula a key, a text in its formula, and what a slip of the pen makes of it.
FAULTS = {
    "rLLM, `pkpo`": ("wrong", "rho(n-1, c, k-1)", "rho(n, c, k-1)"),
    "verl, `grpo_passk`": ("correct", "c == 1", "c <= 2"),
    "EasyR1, `grpo_passk`": ("correct", "(c - 1)/c", "c/n"),
    "PKPO's listing 1, `s`": ("wrong", "rho(n-1, c, k-1)", "rho(n, c, k-1)"),
    "PKPO's listing 1, `sloo`": ("wrong", "rho(n-1, c, k-1)", "rho(n-1, c, k)"),
    "PKPO's listing 1, `sloo_minus_one`": ("correct", "C(n-c, k-1)", "C(n-c+1, k-1)"),
    "TailRL, `pkpo_advantage`": ("correct", "C(n-c, k-1)", "C(n-c-1, k-1)"),
    "TailRL, `tailrl_advantage`": ("correct", "n/c - 1", "n/(c + 1) - 1"),
    "Pass@k Training": ("wrong", "C(n-c-1, k-1)", "C(n-c, k-1)"),
    "OrderGrad, `ReMax`": ("wrong", "rho(n-1, c, k-1)", "rho(n-1, c-1, k-1)"),
    "principled-bestofk, `MaxKLoss`": ("correct", "rho(n-1, c, k-1)", "rho(n-1, c, k)"),
    "prime-rl, `max_rl`": ("correct", "n/c - 1", "(n-1)/c - 1"),
    "W-REINFORCE": ("correct", "1/10", "c/n"),
    "verl, `grpo`, for comparison": ("wrong", "-c/n", "-c/(n-1)"),
}


@pytest.mark.parametrize("name", ALL_FORMULAS)
def test_a_fault_in_a_copy_of_an_implementation_is_found(name: str) -> None:
    """The check says of the copy with the fault something else than of the implementation."""
    formula = ALL_FORMULAS[name]
    key, text, fault = FAULTS[name]
    assert text in str(formula[key])
    changed = {**formula, key: str(formula[key]).replace(text, fault)}
    differs = []
    for k in range(2, N):
        right = found(advantages_of(formula), k)
        wrong = found(advantages_of(changed), k)
        if not page.same(right, wrong):
            differs.append(k)
        # What was unbiased for Pass@k no longer is.
        assert right.get("j") != k or wrong.get("j") != k
    assert differs


@pytest.mark.parametrize(("name", "row"), RUN)
def test_a_formula_with_a_fault_is_told_from_the_running_source(
    name: str, row: dict[str, Any]
) -> None:
    key, text, fault = FAULTS[name]
    formula = ALL_FORMULAS[name]
    changed = {**formula, key: str(formula[key]).replace(text, fault)}
    results = []
    for k, result in row["by_k"].items():
        if k != str(N):
            number = 1 if k == "none" else int(k)
            results.append(page.same(result, found(advantages_of(changed), number)))
    assert not all(results)


# --- A source in a process of its own ---------------------------------------------------------

SOURCE = """
import numpy as np
import not_installed
from not_installed.parts import Base, decorated


class Part(Base[int]):
    pass


@decorated
def right(rewards, k):
    return rewards / len(rewards)


def wrong(rewards, k):
    return rewards / max(rewards.sum(), 1)


def centred(rewards, k):
    return (rewards - rewards.mean()) / len(rewards)


def slow(rewards, k):
    __import__("time").sleep(60)


def killed(rewards, k):
    __import__("os").kill(__import__("os").getpid(), 9)
"""


def entry(function: str, **changed: Any) -> dict[str, Any]:
    call = {"call": "", "function": function, "settings": {}, "meant": "Pass@1", "k": "none"}
    source = {"module": "pkpo_core", "adapter": "pkpo_", "stubs": ["not_installed"]}
    return {**source, "calls": [call], **changed}


def test_a_source_runs_with_stand_ins_for_what_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "pkpo_core.py").write_text(SOURCE)
    (result,) = running.run(entry("right"), tmp_path)
    assert result["by_k"]["none"]["target"] == "unbiased for Pass@1"
    (result,) = running.run(entry("wrong"), tmp_path)
    assert result["by_k"]["none"]["j"] is None


def test_a_call_runs_in_a_copy_of_its_source_with_the_fault(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "pkpo_core.py").write_text(SOURCE)
    centred = entry("centred")
    fault = {"function": "centred", "text": "-", "becomes": "*", "number": 1}
    centred["calls"][0]["fault"] = fault
    (result,) = running.run(centred, source)
    assert result["by_k"]["none"]["j"] == 1
    (found_,) = running.run_faults(centred, source, tmp_path)
    assert found_["fault"] == "`*` for `-` in `centred`"
    assert found_["with_fault"]["none"]["j"] is None
    assert (source / "pkpo_core.py").read_text() == SOURCE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]
    centred["calls"][0]["fault"] = {**fault, "number": 2}
    with pytest.raises(running.Failure, match="centred has - 1 times"):
        running.run_faults(centred, source, tmp_path)


def test_an_installation_has_a_limit_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "DOWNLOAD", 0.01)
    expected = r"pip did not install trl==1\.0\.0 in 0\.01 seconds; is the package index reachable"
    with pytest.raises(running.Failure, match=expected):
        running.folder_of({"package": "trl"}, "1.0.0", None, tmp_path)


def test_a_source_that_cannot_run_is_a_failure_with_its_error(tmp_path: Path) -> None:
    (tmp_path / "pkpo_core.py").write_text(SOURCE)
    with pytest.raises(running.Failure, match="No module named 'not_installed'"):
        running.run(entry("right", stubs=[]), tmp_path)
    with pytest.raises(running.Failure, match="json was imported from"):
        running.run(entry("right", module="json"), tmp_path)


def test_a_source_that_is_killed_is_a_failure_with_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "pkpo_core.py").write_text(SOURCE)
    with pytest.raises(running.Failure, match="exit code -9"):
        running.run(entry("killed"), tmp_path)


def test_a_source_has_a_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pkpo_core.py").write_text(SOURCE)
    monkeypatch.setattr(running, "LONGEST", 0.5)
    with pytest.raises(running.Failure, match=r"no result after 0\.5 seconds"):
        running.run(entry("slow"), tmp_path)


def test_a_source_has_a_limit_of_processor_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pkpo_core.py").write_text("while True: pass")
    monkeypatch.setattr(running, "LIMIT", 1)
    with pytest.raises(running.Failure, match="no result after 1 processor seconds"):
        running.run(entry("right"), tmp_path)


def test_a_checkout_at_another_commit_is_refused(tmp_path: Path) -> None:
    checkout = {"checkout": "someone/trainer", "commit": "abcdef0", "path": "."}
    with pytest.raises(running.Failure, match="must be at commit abcdef0"):
        running.folder_of(checkout, "abcdef0", tmp_path, tmp_path)
