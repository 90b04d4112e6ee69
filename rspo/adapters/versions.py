"""The versions of trainers that were tested, and the warning about any other."""

import logging
from collections.abc import Sequence
from functools import cache

LOGGER = logging.getLogger("rspo")

# The versions that `make test-trainers` runs, in tests/adapters/trainer_versions.json.
TRL = ("1.0.0", "1.10.0", "1.12.0", "1.16.0")
VERL = ("0.7.1", "0.8.0", "0.9.0", "0.9.1")


def warn_unless_tested(package: str, found: str, tested: Sequence[str]) -> None:
    """Log a warning about a version that was not tested, once in a process."""
    if found not in tested:
        _warn(package, found, ", ".join(tested))


@cache
def _warn(package: str, found: str, tested: str) -> None:
    LOGGER.warning(
        "found %s %s; rspo was tested with %s. Its advantages are compared with the expected ones",
        package,
        found,
        tested,
    )
