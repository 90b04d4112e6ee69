"""The names that a config may use for verifiers, rewards, chat templates and families of problems.

Higher layers implement them. Tests check that every name has an implementation. Extensions add
verifiers and rewards (`rspo.config.own`).
"""

from typing import Literal

VERIFIERS = ("exact", "rules", "math_verify", "xverify", "cascade")
CASCADE = ("rules", "xverify")  # default of the config key `cascade`
NEED_CONFIG = ("xverify", "cascade")  # verifiers that take settings from a config
# Raise a version when a verdict changes: the fingerprint of scores contains it, so that Snakemake
# scores again.
VERIFIER_VERSIONS = {"exact": 1, "rules": 4, "math_verify": 3}
# How the judge xVerify is asked: its authors' settings, with those stated that a server may change.
JUDGE_SAMPLING = {
    **{"temperature": 0.1, "top_p": 0.7, "max_tokens": 2048},
    **{"top_k": -1, "repetition_penalty": 1.0},
}

REWARDS = ("binary", "length")
Metric = Literal["pass_at_k", "max_at_k", "pass_hat_k"]  # pass_hat_k: all k are correct

TemplateName = Literal["qwen_math", "r1", "none", "own"]

Family = Literal["linear", "multiply", "countdown", "divide", "sequence", "share", "unknown"]
# Raise it when a problem, its split or a worked example changes: the fingerprints of generated data
# and of models trained from scratch contain it. Revision 1 split by prompt, 2 splits by task.
GENERATOR_REVISION = 2
# Of the tokenizer of models that are trained from scratch.
ALPHABET = "0123456789+-*/=?,()%xABCDEFGH} "

# Of the files that are made from those of a published model: 2 has all end tokens.
HUB_MODEL_REVISION = 2
LARGER = "larger"  # a split with larger numbers than in any other split
LARGER_FAMILIES = ("linear", "divide")  # families that have this split
BASE = "base"  # a policy before reinforcement learning
# What a study can tell about a training (`rspo.analysis.trainings`).
StudyColumn = Literal[
    "late_entropy",
    "zero_weight",
    "ppo_clipped",
    "gradient_clipped",
    "finished",
    "cpu_seconds",
    "gradient_noise",
    "false_accept_share",
]
# Tables of a scale, whose names no study may have.
TABLES = ("curves", "answers", "cost", "agreement", "disagreements", "contamination", "claims")
