"""What all tests of the adapters share."""

import pytest


@pytest.fixture(autouse=True)
def no_platform_of_verl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the platform that `rspo.training.verl` chooses for its process.

    An earlier test in the same process may have left it in the environment, and a trainer that
    these tests start need not have it.
    """
    monkeypatch.delenv("VERL_PLATFORM", raising=False)
    monkeypatch.delenv("VERL_USE_EXTERNAL_MODULES", raising=False)
