"""Formulas of docstrings as LaTeX (docs/_hooks/site_formulas.py), against LaTeX by hand."""

import importlib.util
import sys
from types import ModuleType

import pytest

from tests.support import ROOT


@pytest.fixture(scope="module")
def formulas() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "site_formulas", ROOT / "docs" / "_hooks" / "site_formulas.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("text", "by_hand"),
    [
        (
            "w_i = (k/n) R_i C(n-c, k-1) / C(n-1, k-1)",
            r"w_i = \frac{k}{n} R_i \binom{n-c}{k-1} / \binom{n-1}{k-1}",
        ),
        (
            "sum_{j <= c_lt} R_(j) C(j-1,k-2)",
            r"\sum_{j \le c_{\mathrm{lt}}} R_{(j)} \binom{j-1}{k-2}",
        ),
        ("grad Pass@k = E[(1-p)^(k-1) R]", r"\nabla \text{Pass@}k = \mathbb{E}[(1-p)^{k-1} R]"),
        ("F'(p) = n sum_m [w+(m+1) - w-(m)]", r"F'(p) = n \sum_m [w^{+}(m+1) - w^{-}(m)]"),
        ("-1/n if correct, sqrt(p)", r"-1/n {\text{if}} {\text{correct}}, \sqrt{p}"),
        ("v_-i and y_<t", r"v_{-i} {\text{and}} y_{<t}"),
    ],
)
def test_a_formula_is_the_latex_that_one_would_write(
    formulas: ModuleType, text: str, by_hand: str
) -> None:
    assert formulas.latex(text).replace(" ", "").replace("{\\text{Pass@}}", "\\text{Pass@}") == (
        by_hand.replace(" ", "")
    )


def test_code_and_sentences_stay_as_they_are(
    formulas: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formulas, "_math", lambda formula, display: f"<{formula}>")
    for block in (
        '    weights = response_weights(rewards, "rspo_pass_at_k", k=4)\n',
        "    $ rspo diagnose maxpo --k 4\n",
        "    1/n sum over responses of their advantage\n",
        "    pass_at_k(4, C(correct, 2), 2)\n",
    ):
        assert formulas.typeset(f"Text:\n\n{block}\nMore.") == f"Text:\n\n{block}\nMore."
    formula = "    w_i = C(n, k),     k >= 2,\n"
    assert formulas.typeset(f"Text:\n\n{formula}\nMore.") == (
        'Text:\n\n<div class="formula"><div><w_i = C(n, k),> <k >= 2,></div></div>\n\nMore.'
    )
    assert formulas.typeset("w_i = R_i / n: unbiased.") == "<span><w_i = R_i / n></span>: unbiased."
    assert "site_formulas" not in sys.modules  # nothing else imports it
