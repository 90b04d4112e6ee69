"""What extensions register, and how a test takes it back."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rspo.analysis import CLAIMS
from rspo.config.names import VERIFIER_VERSIONS
from rspo.config.registered import OWN_REWARDS, OWN_VERIFIERS
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
    before = [dict(registry) for registry in _ALL]
    modules = {*sys.modules}
    try:
        yield
    finally:
        for name in {*sys.modules} - modules:
            if name.startswith("rspo_extension_"):
                del sys.modules[name]
        for registry, items in zip(_ALL, before, strict=True):
            registry.clear()
            registry.update(items)
