"""`cascade` and the config keys that select verifiers."""

from pathlib import Path
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.config.steps import judge_inputs
from rspo.core.errors import InputError
from rspo.rewards import verify
from rspo.rewards.configured import verifier_of
from tests.support import ROOT
from tests.support.attacks import boxed


def tiny(**overrides: Any) -> Experiment:
    return Experiment.load("tiny", overrides, root=ROOT)


def test_the_first_verifier_that_accepts_decides_or_else_the_last() -> None:
    responses = [boxed("36"), boxed("6^2"), boxed("37")]
    for cascade, deciding in (
        (("exact", "rules"), ["exact", "rules", "rules"]),
        (("rules", "exact"), ["rules", "rules", "exact"]),
        (("exact", "math_verify", "rules"), ["exact", "math_verify", "rules"]),
    ):
        verdicts = verify(responses, ["36"] * 3, "cascade", cascade=cascade)
        assert [verdict.correct for verdict in verdicts] == [True, True, False]
        assert [verdict.verifier for verdict in verdicts] == deciding


def test_the_rules_then_the_library_of_a_config_need_no_judge(tmp_path: Path) -> None:
    """The library accepts an equation that differs by a factor with a variable."""
    experiment = tiny(verifier="cascade", cascade=["rules", "math_verify"])
    assert judge_inputs(experiment, "cascade") == []
    responses = [boxed("2x - y + 3 = 0"), boxed("xy = 1"), boxed("xy = 2")]
    answers = ["y = 2x + 3", r"y = \frac{1}{x}", r"y = \frac{1}{x}"]
    with verifier_of(experiment, "cascade", tmp_path / "verdicts") as configured:
        verdicts = configured(responses, answers, questions=[""] * 3)
    assert [verdict.correct for verdict in verdicts] == [True, True, False]
    assert [verdict.verifier for verdict in verdicts] == ["rules", "math_verify", "math_verify"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"cascade": ["rules", "cascade"]}, r"cascade\.1 = 'cascade'.*exact, rules"),
        ({"verifier": "cascade"}, "verifier = 'cascade' needs the section xverify"),
    ],
)
def test_a_wrong_list_is_an_error(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tiny(**overrides)
