"""The names that a config may use for verifiers, chat templates and families of problems.

The implementations are in layers above this one and register under these names; tests hold the
two lists equal.
"""

from typing import Literal, get_args

VerifierName = Literal["exact", "math_verify", "xverify", "cascade"]
VERIFIERS: tuple[str, ...] = get_args(VerifierName)
NEED_JUDGE = ("xverify", "cascade")
# Versions of the verifiers in this repository. Raise one when a verdict changes: the fingerprint of
# scores contains it, so that Snakemake scores again.
VERIFIER_VERSIONS = {"exact": 1, "math_verify": 2, "cascade": 2}

TemplateName = Literal["qwen_math", "r1", "none"]

Family = Literal["linear", "multiply", "countdown", "divide", "sequence"]
LARGER = "larger"  # a split with larger numbers than in any other split
LARGER_FAMILIES = ("linear", "divide")  # those that have this split
