"""docs/vectors.json: what its command writes, and what the package and `passk.py` compute."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from decimal import Context
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rspo import estimators, passk
from rspo.objectives import OBJECTIVES, response_weights
from rspo.objectives.objective import KRule
from tests import vectors
from tests.support import ROOT, peers

TEXT = vectors.FILE.read_text(encoding="utf-8")
GROUPS: list[dict[str, Any]] = json.loads(TEXT)["groups"]
Function = Callable[[Any, int], Any]


def exact(texts: list[str]) -> list[Fraction]:
    return [Fraction(text) for text in texts]


def rewards_of(group: dict[str, Any]) -> NDArray[np.float64]:
    return np.array([float(reward) for reward in exact(group["rewards"])])


def by_k(group: dict[str, Any], objective: str) -> dict[int, list[str]]:
    """The weights of an objective at each k; at k = 1 if it has no k. Empty if it has none."""
    found = group["weights"].get(objective, {})
    if isinstance(found, list):
        return {1: found}
    return {int(k): weights for k, weights in found.items()}


def compare(objective: str, function: Function) -> int:
    """Compare a function with the weights of an objective in every group.

    Returns: the number of weights.

    Raises: AssertionError if a weight differs by more than 1e-12 of the largest number of its
        group.
    """
    compared = 0
    for group in GROUPS:
        for k, texts in by_k(group, objective).items():
            rewards = rewards_of(group)
            expected = np.array([float(weight) for weight in exact(texts)])
            largest = max(abs(expected).max(), abs(rewards).max())
            found = function(rewards, k)
            difference = abs(found - expected).max()
            assert difference <= 1e-12 * largest, (objective, k, rewards, found)
            compared += len(texts)
    return compared


# --- The file ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(1, vectors.LARGEST + 1))
def test_the_file_is_what_its_command_writes(n: int) -> None:
    made = [vectors.entry(group) for group in vectors.groups() if len(group) == n]
    assert made == [group for group in GROUPS if len(group["rewards"]) == n]
    assert len(made) == n + 1 + len(vectors.PATTERNS)


def test_the_file_has_a_line_for_each_group_and_is_small() -> None:
    assert vectors.as_text(GROUPS) == TEXT
    assert len(GROUPS) == sum(1 for _ in vectors.groups())
    assert len(TEXT) < 1e6


def test_the_command_imports_nothing_of_the_package() -> None:
    code = "import sys, tests.vectors; print([m for m in sys.modules if m.split('.')[0] == 'rspo'])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_group_has_every_objective_with_every_k(objective: str) -> None:
    chosen = OBJECTIVES[objective]
    for group in GROUPS:
        n = len(group["rewards"])
        fits = not chosen.binary or set(group["rewards"]) <= {"0", "1"}
        ks = range(1, n + 1) if chosen.has_k else [1]
        expected = [k for k in ks if fits and chosen.allows(k, n)]
        assert sorted(by_k(group, objective)) == expected


def test_the_file_has_no_other_objective() -> None:
    assert {name for group in GROUPS for name in group["weights"]} == set(OBJECTIVES)


def test_rewards_tie_and_are_negative_in_every_size_above_two() -> None:
    for n in range(3, vectors.LARGEST + 1):
        groups = [exact(group["rewards"]) for group in GROUPS if len(group["rewards"]) == n]
        assert any(max(group) < 0 and len(set(group)) < n for group in groups)
        assert any(min(group) < 0 < max(group) for group in groups)
        assert any(group.count(max(group)) == 1 for group in groups)


def test_more_precision_changes_no_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "DIGITS", 100)
    monkeypatch.setattr(peers, "CONTEXT", Context(prec=100))
    checked = 0
    for group in GROUPS:
        rewards = exact(group["rewards"])
        if len(rewards) != 5:
            continue
        for name in ("grpo", "grpo_passk", "rs_grpo", "ttt_entropic", "passk_training"):
            for k, texts in by_k(group, name).items():
                assert vectors.texts(getattr(peers, name)(rewards, k)) == texts
                checked += sum("." in text for text in texts)
    assert checked > 100


# --- The package and passk.py -----------------------------------------------------------------


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_weights_of_the_package_are_those_of_the_file(objective: str) -> None:
    assert compare(objective, lambda rewards, k: response_weights(rewards, objective, k)) > 200


@pytest.mark.parametrize(
    ("objective", "function"),
    [
        ("rspo_pass_at_k", passk.pass_at_k_weights),
        ("rspo_max_at_k", passk.max_at_k_weights),
    ],
)
def test_the_weights_of_passk_are_those_of_the_file(objective: str, function: Function) -> None:
    assert compare(objective, function) > 200


def estimated(module: Any, name: str, group: dict[str, Any], k: int) -> float:
    """An estimate of one group by the function of a module."""
    rewards = rewards_of(group)
    function = getattr(module, name)
    if name.startswith("max"):
        return float(function(rewards, k))
    return float(function(len(rewards), int(rewards.sum()), k))


def compare_estimates(module: Any, name: str) -> int:
    """Compare the function of a module with an estimate in every group, as `compare` does."""
    compared = 0
    for group in GROUPS:
        for k, text in group["estimates"].get(name, {}).items():
            expected = float(Fraction(text))
            found = estimated(module, name, group, int(k))
            scale = max(abs(rewards_of(group)).max(), 1.0) ** 2
            assert abs(found - expected) <= 1e-12 * scale, (name, k, group["rewards"], found)
            compared += 1
    return compared


ESTIMATES = {name for group in GROUPS for name in group["estimates"]}


@pytest.mark.parametrize("module", [estimators, passk])
@pytest.mark.parametrize("name", sorted(ESTIMATES))
def test_estimates_and_their_variances_are_those_of_the_file(module: Any, name: str) -> None:
    assert compare_estimates(module, name) > 90


def test_the_file_has_every_estimate_of_one_problem() -> None:
    metrics = ("pass_at_k", "pass_hat_k", "max_at_k")
    assert {*metrics, *(f"{metric}_variance" for metric in metrics)} == ESTIMATES


@pytest.mark.parametrize("name", sorted(name for name in ESTIMATES if name.endswith("variance")))
def test_a_variance_is_missing_only_where_none_exists(name: str) -> None:
    for group in GROUPS:
        n = len(group["rewards"])
        if name.removesuffix("_variance") in group["estimates"]:
            ks = [int(k) for k in group["estimates"].get(name, {})]
            assert ks == list(range(1, n // 2 + 1))
            if n > 1:
                assert np.isnan(estimated(passk, name, group, n))


# --- Faults -----------------------------------------------------------------------------------

FAULTS = {
    "policy_gradient": ("return rewards / rewards", "return abs(rewards) / rewards"),
    "hitchhiking": ("return (k / n) * best", "return best"),
    "rspo_pass_at_k": ("np.minimum(wrong, n - 1)]", "np.maximum(wrong - 1, 0)]"),
    "rspo_pass_at_k_plug_in": ("** (k - 1)", "** k"),
    "rspo_max_at_k": (
        "fraction_of_subsets_below(n, k)[1:]",
        "fraction_of_subsets_below(n, k)[:-1]",
    ),
    "rspo_max_at_k_ranked": ("rspo_max_at_k(rewards, k)", "rspo_max_at_k(rewards, max(k - 1, 1))"),
    "rspo_max_at_k_plug_in": ("np.diff(ascending, axis=-1) > 0", "np.diff(ascending) > -1"),
    "grpo": ("ddof=1", "ddof=0"),
    "pkpo_s": ("share = (k / n) * (k - 1)", "share = (k / n) * k"),
    "pkpo_s_loo": ("k / (n - 1) * baseline", "k / n * baseline"),
    "maxpo": ("centred / (1 - k / n)", "centred"),
    "ordergrad_top_half": ("(k + 1) // 2", "k // 2 + 1"),
    "ordergrad_median": ("{(k - 1) // 2, k // 2}", "{k // 2}"),
    "ordergrad_bottom_half": ("(k + 1) // 2", "k // 2 + 1"),
    "passk_training": ("(rewards - correct / n)", "(rewards - correct / (n - 1))"),
    "grpo_passk": ("second = ascending[..., -2:-1]", "second = ascending[..., :1]"),
    "tailrl": ("lowest = rewards.min(axis=-1, keepdims=True) / n", "lowest = 0.0"),
    "tailrl_centred": ("np.ptp(rewards, axis=-1, keepdims=True) / n", "rewards.mean()"),
    "maxrl": ("(rewards.max(axis=-1, keepdims=True) > 0) / rewards.shape[-1]", "0.125"),
    "maxrl_uncentred": ("rewards / np.maximum(correct, 1.0)", "rewards / (correct + 1e-6)"),
    "rs_grpo": ("RS_GRPO_BETA = 2.0", "RS_GRPO_BETA = 1.0"),
    "ttt_entropic": ("TARGET_KL = math.log(2)", "TARGET_KL = math.log(2.1)"),
    "w_reinforce": ("W_REINFORCE_LAMBDA = 0.1", "W_REINFORCE_LAMBDA = 0.11"),
}
FAULTS_OF_ESTIMATES = {
    "pass_at_k": ("(n + 1, k + 1)[n - c])", "(n + 1, k + 1)[n - c - (c < n)])"),
    "pass_hat_k": ("(n + 1, k + 1)[c])", "(n, k)[np.minimum(c, n - 1)])"),
    "max_at_k": ("return fraction_of_subsets_below(n, k) * (k / n)", "return np.full(n, 1 / n)"),
    "pass_at_k_variance": ("i = np.arange(k,", "i = np.arange(k - 1,"),
    "pass_hat_k_variance": ("pass_at_k_variance(sizes, sizes - counts, k)", "sizes * 0.0"),
    "max_at_k_variance": ("disjoint = 2.0", "disjoint = 1.0"),
}


def with_fault(module: str, text: str, fault: str) -> ModuleType:
    """A module of the package whose source has one text replaced, under a name of its own."""
    original = sys.modules[module]
    assert original.__file__ is not None
    source = Path(original.__file__).read_text(encoding="utf-8")
    assert text in source
    changed = ModuleType(f"{module}_with_fault")
    changed.__file__ = original.__file__
    exec(compile(source.replace(text, fault), original.__file__, "exec"), vars(changed))
    return changed


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_fault_in_an_objective_is_found(objective: str) -> None:
    function = OBJECTIVES[objective].function
    module = function.__module__
    changed = with_fault(module, *FAULTS[objective])
    with pytest.raises(AssertionError, match=objective):
        compare(objective, getattr(changed, function.__name__))


@pytest.mark.parametrize("name", sorted(FAULTS_OF_ESTIMATES))
def test_a_fault_in_an_estimate_is_found(name: str) -> None:
    changed = with_fault("rspo.passk", *FAULTS_OF_ESTIMATES[name])
    with pytest.raises(AssertionError, match=name):
        compare_estimates(changed, name)


# --- The page ---------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "vectors.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def node() -> str:
    """The JavaScript runtime. Without it its tests are skipped, and fail in CI."""
    found = shutil.which("node")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("node is not here: the program of docs/vectors.md cannot run")
        pytest.skip("node is not here")
    return found


def run_program(node: str, folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "check.js").write_text(program)
    shutil.copy(vectors.FILE, folder)
    command = [node, "check.js"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_program_of_the_page_holds_its_own_weights_against_the_file(
    node: str, tmp_path: Path
) -> None:
    (program,) = re.findall(r"```javascript\n(.*?)```", PAGE, re.DOTALL)
    done = run_program(node, tmp_path, program)
    expected = 0
    for group in GROUPS:
        expected += sum(len(weights) for weights in by_k(group, "rspo_pass_at_k").values())
    assert done.stdout == f"{expected} weights are right\n", done.stderr
    assert f"`{expected} weights are right`" in PAGE
    assert len(program.splitlines()) <= 20


@pytest.mark.parametrize(
    ("text", "fault"),
    [("n - 1 - i", "n - i"), ("k / n", "1 / n"), ("reward * share", "share"), ("k - 1;", "k;")],
)
def test_the_program_of_the_page_finds_a_fault_in_its_weights(
    node: str, tmp_path: Path, text: str, fault: str
) -> None:
    (program,) = re.findall(r"```javascript\n(.*?)```", PAGE, re.DOTALL)
    assert program.count(text) == 1
    done = run_program(node, tmp_path, program.replace(text, fault))
    assert done.returncode != 0
    assert "rewards" in done.stderr


def test_the_page_names_every_objective_of_the_file_by_its_k() -> None:
    assert KRule.NONE.value in PAGE
    for objective in OBJECTIVES.values():
        (rule,) = re.findall(rf"^\| ([^|]*) \| [^|]*`{objective.name}`", PAGE, re.MULTILINE)
        assert rule.startswith(objective.k_rule.value)
