"""The names that a config may use for verifiers, rewards, chat templates and families of problems.

Higher layers implement them. Extensions add verifiers and rewards (`rspo.config.registered`).
"""

from typing import Literal

VERIFIERS = ("exact", "rules", "math_verify", "xverify")
# Raise a version when a verdict changes: the fingerprint of scores contains it, so that Snakemake
# scores again.
VERIFIER_VERSIONS = {"exact": 1, "rules": 5, "math_verify": 3}
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
Metric = Literal["pass_at_k", "max_at_k", "pass_hat_k"]  # pass_hat_k: all k are correct

TemplateName = Literal["qwen_math", "none", "own"]

Family = Literal["linear", "multiply", "countdown", "divide", "sequence", "share", "unknown"]
# Raise it when a problem, its split or a worked example changes: the fingerprints of generated data
# and of models trained from scratch contain it. Revision 1 split by prompt, 2 splits by task.
GENERATOR_REVISION = 2
# The characters that the tokenizer of models from scratch knows.
ALPHABET = "0123456789+-*/=?,()%xABCDEFGH} "

# Raise it when the files of a base policy that is made from a published model change. Revision 2
# lists every end token of the model.
HUB_MODEL_REVISION = 2
LARGER = "larger"  # the split whose numbers are larger than those of any other split
BASE = "base"  # a policy before reinforcement learning
# What a study can tell about a training (`rspo.analysis.study_columns`).
StudyColumn = Literal[
    "late_entropy",
    "zero_weight",
    "ppo_clipped",
    "gradient_clipped",
    "finished",
    "cpu_seconds",
]
# Tables of a scale, whose names no study may have.
TABLES = ("cost", "claims")
