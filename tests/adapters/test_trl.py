"""Runs trl_contract.py in an environment of its own, because rspo does not install TRL."""

import re
from pathlib import Path

import pytest

from tests.adapters import own_environment
from tests.support import ROOT
from tests.trainers import CONTRACTS

pytestmark = pytest.mark.ci

# accelerate, which TRL imports, is installed with verl only.
PACKAGES = ("trl==1.16.0", "accelerate==1.15.0")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_environment.make(tmp_path_factory.mktemp("trl"), PACKAGES)


@pytest.mark.parametrize("contract", CONTRACTS["trl"])
def test_the_contract_with_trl(python: Path, contract: str) -> None:
    own_environment.run_tests(python, f"tests/adapters/{contract}")


def test_groups_may_lie_on_two_ranks(python: Path, tmp_path: Path) -> None:
    ranks = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    own_environment.run(python, *ranks, "tests/adapters/trl_ranks.py", str(tmp_path))


def numbers(text: str) -> list[float]:
    """Pass@1 and Pass@4 of both trainings."""
    return [float(number) for number in re.findall(r"Pass@[14] = ([0-9.]+)", text)]


def test_the_example_prints_what_its_first_lines_say(python: Path) -> None:
    example = ROOT / "examples" / "trl_bandit.py"
    printed = numbers(own_environment.run(python, str(example)))
    assert len(printed) == 4
    # Samples, and so the last digit, depend on the machine's rounding.
    assert printed == pytest.approx(numbers(example.read_text()), abs=0.03)
    assert printed[3] > printed[1] + 0.2


def test_the_example_with_an_evaluation_logs_pass_at_4_with_its_error(python: Path) -> None:
    example = ROOT / "examples" / "trl_pass_at_k.py"
    line = r"step (\d+): Pass@4 = ([\d.]+), error ([\d.]+), within ([\d.]+)"
    printed = re.findall(line, own_environment.run(python, str(example)))
    expected = re.findall(line, example.read_text())
    assert [row[0] for row in printed] == [row[0] for row in expected] == ["0", "10", "20", "30"]
    first = [float(value) for value in printed[0][1:]]
    last = [float(value) for value in printed[-1][1:]]
    assert last[0] > first[0] + 0.2
    for _, error, within in (first, last):
        assert 0 < within <= error < 0.15
