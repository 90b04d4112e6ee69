"""What extensions register, and how a test takes it back."""

from collections.abc import Iterator
from contextlib import contextmanager

from rspo.analysis import CLAIMS
from rspo.config import extensions
from rspo.config.names import OWN_REWARDS, OWN_VERIFIERS, VERIFIER_VERSIONS
from rspo.figures import FIGURES
from rspo.objectives import OBJECTIVES

_ALL: tuple[dict[str, object], ...] = (
    OBJECTIVES,
    OWN_REWARDS,
    OWN_VERIFIERS,
    VERIFIER_VERSIONS,
    FIGURES,
    CLAIMS,
)  # type: ignore[assignment]


@contextmanager
def restored() -> Iterator[None]:
    """As a process that has run no extension: what the block registers is forgotten at its end."""
    before, run = [dict(registry) for registry in _ALL], dict(extensions._run)
    try:
        yield
    finally:
        extensions._run.clear()
        extensions._run.update(run)
        for registry, items in zip(_ALL, before, strict=True):
            registry.clear()
            registry.update(items)
