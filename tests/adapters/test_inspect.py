"""The scorer, the reducer and the metric in an environment with Inspect from the package index."""

import json
from typing import Any

import pytest

from tests.support import ROOT, subsets
from tests.support.installs import PIP, make_environment, make_wheel, run
from tests.support.pages import code_of

pytestmark = pytest.mark.long  # installs eighty packages

PAGE = ROOT / "docs" / "verify_while_training.md"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What inspect_evaluation.py prints, where the package is installed as a user would."""
    folder = tmp_path_factory.mktemp("inspect")
    python = make_environment(folder / "venv")
    packages = (f"{make_wheel(folder)}[math]", "inspect-ai==0.3.285")
    run(*PIP, "--python", python, "install", "--quiet", *packages, cwd=folder)
    (folder / "sums.py").write_text(code_of(PAGE, "Inspect"))
    script = ROOT / "tests" / "adapters" / "inspect_evaluation.py"
    *_, last = run(python, script, "sums.py", cwd=folder).splitlines()
    result: dict[str, Any] = json.loads(last)
    return result


@pytest.mark.parametrize("k", [1, 2])
def test_the_reducer_and_the_metric_are_those_of_enumeration(found: dict[str, Any], k: int) -> None:
    of_k = found["mixed"]["metrics"][f"rspo/max_at_{k}"]
    mean, _, within = subsets.mean_with_errors([[1, 0, 0, 0], [1, 0, 1, 0]], k)
    assert of_k["accuracy"] == pytest.approx(mean)
    assert of_k["stderr_within"] == pytest.approx(within)


def test_each_score_has_an_answer_and_a_reason(found: dict[str, Any]) -> None:
    reasons = ["correct"] * 3 + ["incorrect"] * 4 + ["no answer"]
    assert found["mixed"]["reasons"] == reasons
    assert found["mixed"]["answers"] == ["0.5", "3", "7", "7.0", "None"]


def test_a_response_that_hangs_math_verify_is_incorrect_with_a_reason(
    found: dict[str, Any],
) -> None:
    assert found["hanging"]["reasons"] == ["timeout"]
    (metrics,) = found["hanging"]["metrics"].values()
    assert metrics["accuracy"] == 0.0


def test_the_task_of_the_page_works(found: dict[str, Any]) -> None:
    metrics = found["page"]["metrics"]
    assert [*metrics] == ["rspo/max_at_1", "rspo/max_at_4"]
    assert all(0 <= of_k["stderr_within"] < 1 for of_k in metrics.values())
