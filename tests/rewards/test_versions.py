"""Verdicts may only change together with the version of their verifier."""

from importlib.metadata import version

import pytest

from rspo.config.names import VERIFIER_VERSIONS
from rspo.core.files import fingerprint
from tests.long import code_of
from tests.support import ROOT

CODE = {
    "exact": ["exact.py", "extraction.py"],
    "rules": ["rules/*.py", "extraction.py", "sandbox_worker.py"],
    "math_verify": ["math_verify.py", "extraction.py", "sandbox_worker.py"],
}
LIBRARIES = {"exact": [], "rules": ["math-verify"], "math_verify": ["math-verify"]}
DIGESTS = {
    ("exact", 1): "12ab93c1de1f",
    ("rules", 5): "bafe0307e4da",
    ("math_verify", 3): "9f64fafae293",
}


@pytest.mark.parametrize("verifier", CODE)
def test_changed_code_needs_a_new_version(verifier: str) -> None:
    """The version is all that the fingerprint of scores knows about the code of a verifier.

    This test fails after every change of that code, other than in comments, docstrings and
    imports. If the change affects a verdict, raise the verifier's number in VERIFIER_VERSIONS. In
    any case, update the digest here.
    """
    folder = ROOT / "rspo" / "rewards"
    files = sorted({file for pattern in CODE[verifier] for file in folder.glob(pattern)})
    libraries = [f"{name} {version(name)}" for name in LIBRARIES[verifier]]
    digest = fingerprint([repr(code_of(file)) for file in files] + libraries)
    assert DIGESTS[verifier, VERIFIER_VERSIONS[verifier]] == digest
