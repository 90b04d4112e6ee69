"""The names that a config may use for verifiers, rewards, chat templates and families of problems.

Higher layers implement them. Extensions add verifiers and rewards (`rspo.config.registered`).
"""

from collections.abc import Iterable
from typing import Literal

VERIFIERS = ("exact", "rules", "math_verify", "xverify")
# Raise the version of a verifier when any of its verdicts changes: the fingerprint of scores
# contains the version, so that Snakemake scores again. For xverify, the fingerprint contains the
# judge's model and prompt instead.
VERIFIER_VERSIONS = {"exact": 1, "rules": 6, "math_verify": 4}
# Where an answer may stand in a response. Each place is named in docs/verification.md.
EXTRACTIONS = ("box", "answer-line", "answer-tag", "hashes", "minerva", "last-number")
WHOLE = "whole"  # the response is the answer
ALL_PLACES = "all"  # stands for `EXTRACTIONS`, in their order
PLACES = EXTRACTIONS + (WHOLE,)
NAMES_OF_PLACES = PLACES + (ALL_PLACES,)  # what a user may write


def places_of(names: str | Iterable[str]) -> list[str]:
    """The names of places, from a list or a text with commas between them, without repetitions."""
    places: list[str] = []
    for name in names.split(",") if isinstance(names, str) else names:
        place = str(name).strip()
        places.extend(EXTRACTIONS if place == ALL_PLACES else [place])
    return list(dict.fromkeys(places))


BOX_ONLY = ("box",)  # the default
EXTRACTING = ("exact", "rules", "math_verify")  # the verifiers that read only these places
# How the judge xVerify samples: its authors' values, and values that are set explicitly because a
# server may have other defaults.
JUDGE_SAMPLING = {
    "temperature": 0.1,
    "top_p": 0.7,
    "max_tokens": 2048,
    "top_k": -1,
    "repetition_penalty": 1.0,
}

REWARDS = ("binary", "length")
# The chance that at least one of k responses is correct, the expected largest reward of k
# responses, and the chance that all k are correct.
Metric = Literal["pass_at_k", "max_at_k", "pass_hat_k"]

# Chat templates (`rspo.policies.templates`); own: the template in the model's tokenizer.
TemplateName = Literal["qwen_math", "none", "own"]

Family = Literal["linear", "multiply", "countdown", "divide", "sequence", "share", "unknown"]
# Raise it when a generated problem, its split or a worked example changes: the fingerprints of
# generated data and of models trained from scratch contain it. Revision 1 assigned problems to
# splits by their prompt. Revision 2 does so by their task (`rspo.datasets.generated`), which
# prompts in different words may share.
GENERATOR_REVISION = 2
# The version of the package reasoning-gym that makes problems: another one may make other problems.
REASONING_GYM = "0.1.25"
# Tasks of reasoning-gym: sums and differences of two, three and four numbers, products of two
# numbers, greatest common divisors and least common multiples.
GymTask = Literal["sums_2", "sums_3", "sums_4", "products_2", "gcd", "lcm"]
# The characters that the tokenizer of models from scratch knows.
ALPHABET = "0123456789+-*/=?,()%xABCDEFGH} "

# Raise it when this package makes other files from the same published model. Since revision 2, the
# files of a base policy list every end token of the model.
HUB_MODEL_REVISION = 2
LARGER = "larger"  # the split whose numbers are larger than those of any other split
BASE = "base"  # ends the name of a policy before reinforcement learning
# The columns with which a study may describe its trainings and their curves of Pass@k
# (`rspo.analysis.study_columns`).
StudyColumn = Literal[
    "late_entropy",
    "zero_weight",
    "ppo_clipped",
    "gradient_clipped",
    "finished",
    "correct",
    "accepted_wrong",
    "cpu_seconds",
    "regret",
    "crossing",
]
# The tables that every scale has. No study can have their names, because its table is beside them.
TABLES = ("cost", "claims")
