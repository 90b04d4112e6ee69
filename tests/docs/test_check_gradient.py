"""docs/check_gradient.md: its table is that of the formulas, and its code runs."""

import importlib.util
import os
import re
import subprocess
import sys
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rspo.objectives.diagnose import diagnose
from tests.support import ROOT

PAGE = (ROOT / "docs" / "check_gradient.md").read_text()
P = [Fraction(i, 10) for i in range(10)]


def loaded() -> Any:
    spec = importlib.util.spec_from_file_location(
        "docs_table", ROOT / "docs/_hooks/implementations.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = loaded()
ROWS = {row["name"]: row for row in TABLE.rows()}


def test_the_table_is_what_its_command_writes() -> None:
    assert TABLE.page() == PAGE


def slope(row: dict[str, Any], n: int, k: int, p: Fraction) -> Fraction | float:
    """F'(p), by adding up what a correct and a wrong response get, of the others m correct."""
    total: Fraction | float = Fraction(0)
    for m in range(n):
        chance = comb(n - 1, m) * p**m * (1 - p) ** (n - 1 - m)
        better = TABLE.weight(row, "correct", m + 1, n, k) - TABLE.weight(row, "wrong", m, n, k)
        total += n * chance * better
    return total


def of_pass_at(j: int, p: Fraction) -> Fraction:
    return j * (1 - p) ** (j - 1)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("n", [2, 5, 8])
def test_each_verdict_follows_from_the_formula(name: str, n: int) -> None:
    row = ROWS[name]
    for k in range(1, n + 1):
        if not TABLE.accepts(row, k, n):
            continue
        form = diagnose(TABLE.weights(row), k, n).weights
        slopes = [float(slope(row, n, k, p)) for p in P]
        if form.mixture is not None:
            expected = [sum(a * of_pass_at(j, p) for j, a in form.mixture.items()) for p in P]
            assert slopes == pytest.approx([float(e) for e in expected], rel=1e-5, abs=1e-5)
            alone = len(form.mixture) == 1 and min(form.mixture.values()) > 0
            assert (form.unbiased_for is not None) == alone
        else:
            assert form.unbiased_for is None
            for j in range(1, n + 1):
                ratios = [s / float(of_pass_at(j, p)) for s, p in zip(slopes, P, strict=True)]
                assert max(ratios) - min(ratios) > 0.01 * max(map(abs, ratios))


@pytest.mark.parametrize("n", range(2, 10))
def test_centring_takes_k_of_n_parts_of_pkpos_gradient(n: int) -> None:
    for k in range(1, n + 1):
        for p in P:
            expected = (1 - Fraction(k, n)) * of_pass_at(k, p)
            assert slope(ROWS["rLLM, `pkpo`"], n, k, p) == expected


@pytest.mark.ci
def test_the_code_for_verl_runs_and_its_row_is_verls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper, check, test = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "verl_advantages.py").write_text(wrapper)
    (tmp_path / "test_mine.py").write_text(test)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    (printed,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    done = run("-c", check)
    assert done.stdout == printed, done.stderr
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py")
    assert done.returncode == 0, done.stdout

    monkeypatch.syspath_prepend(tmp_path)
    advantages = importlib.import_module("verl_advantages").advantages
    groups = np.tril(np.ones((9, 8)), -1)
    ours = TABLE.weights(ROWS["verl, `grpo_passk`"])(groups, 1)
    assert advantages(groups, 1) / 8 == pytest.approx(ours, abs=1e-6)  # in float32, as in verl
