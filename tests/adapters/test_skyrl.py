"""Runs skyrl_contract.py in an environment of its own, because rspo does not install SkyRL."""

from pathlib import Path

import pytest

from tests.adapters import own_environment

pytestmark = pytest.mark.ci

# SkyRL and what it imports that is not installed with verl.
PACKAGES = (
    "skyrl==0.3.0",
    "skyrl-gym==0.4.0",
    "jaxtyping==0.3.11",
    "wadler-lindig==0.1.8",
    "loguru==0.7.3",
)
# SkyRL uses typing.TypedDict in models of pydantic, which accepts it from Python 3.12 on.
AT_START = "import typing, typing_extensions; typing.TypedDict = typing_extensions.TypedDict"


def test_the_contract_with_skyrl(tmp_path: Path) -> None:
    python = own_environment.make(tmp_path / "skyrl", PACKAGES, AT_START)
    own_environment.run_tests(python, "tests/adapters/skyrl_contract.py")
