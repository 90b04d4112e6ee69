"""Verdicts may only change together with the version of their verifier."""

import ast
from importlib.metadata import version
from pathlib import Path

import pytest

from rspo.config.names import VERIFIER_VERSIONS
from rspo.core.files import fingerprint
from tests.long import IMPORTS, code_of
from tests.support import ROOT

CODE = {
    "exact": ["exact.py", "extraction.py", "places.py"],
    "rules": ["rules/*.py", "extraction.py", "places.py", "sandbox_worker.py"],
    "math_verify": ["math_verify.py", "extraction.py", "places.py", "sandbox_worker.py"],
}
LIBRARIES = {"exact": [], "rules": ["math-verify"], "math_verify": ["math-verify"]}
DIGESTS = {
    ("exact", 1): "36e1ccf14f6f",
    ("rules", 6): "08753e384868",
    ("math_verify", 4): "a9c330776c1c",
}


def imports_of(file: Path) -> list[str]:
    """The imports of a module, which `code_of` leaves out: a name may come from another module."""
    nodes = ast.walk(ast.parse(file.read_text()))
    return [ast.unparse(node) for node in nodes if isinstance(node, IMPORTS)]


@pytest.mark.parametrize("verifier", CODE)
def test_changed_code_needs_a_new_version(verifier: str) -> None:
    """The version is all that the fingerprint of scores knows about the code of a verifier.

    This test fails after every change of that code, other than in comments and docstrings. If the
    change affects a verdict, raise the verifier's number in VERIFIER_VERSIONS. In any case, update
    the digest here.
    """
    folder = ROOT / "rspo" / "rewards"
    files = sorted({file for pattern in CODE[verifier] for file in folder.glob(pattern)})
    libraries = [f"{name} {version(name)}" for name in LIBRARIES[verifier]]
    code = [repr((code_of(file), imports_of(file))) for file in files]
    digest = fingerprint(code + libraries)
    assert DIGESTS[verifier, VERIFIER_VERSIONS[verifier]] == digest
