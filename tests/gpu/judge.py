"""A judge for a training on one GPU, and the overrides of the config for it."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.gpus import gpu_bytes
from rspo.core.hub import fetch_files
from rspo.policies.qwen2 import ModelConfig
from rspo.policies.templates import TEMPLATES, set_template
from tests.gpu.settings import JUDGED, Settings
from tests.support import hub_model

# Of the smallest xVerify: weights, what vLLM needs to compute, and a cache.
_JUDGE_BYTES = 4.0e9
# Not the authors' prompt, whose repository a node may not reach.
PROMPT = """\
Question: {question}
Response: {output}
Correct answer: {answer}
Is the final answer of the response the correct answer? Reply with one word: correct or incorrect.
"""
_ON_A_CPU = [
    "--dtype=float32",
    "--enforce-eager",
    f"--max-model-len={hub_model.CONTEXT}",
    # Requests have seeds, and vLLM on a CPU cannot read a seeded prompt in parts.
    "--no-enable-chunked-prefill",
    f"--max-num-batched-tokens={hub_model.CONTEXT}",
    f"--kv-cache-memory-bytes={2**30}",
]


def changes_with(settings: Settings, folder: Path) -> dict[str, Any]:
    """Overrides of the config for the judge in a folder."""
    return {
        "seeds": JUDGED + 1,
        "verifier": "xverify",
        "xverify": xverify(settings, folder),
        "training": {"steps": 1, "validation": {"every": None}},
    }


def write_judge(settings: Settings, folder: Path) -> str:
    """Write xVerify or a random judge to a folder, and return its name."""
    real = Experiment.load("paper").config.xverify
    assert real is not None
    reason = "on a CPU"
    if settings.device == "cuda":
        try:
            fetch_files(real.model, real.revision, folder, settings.mirror)
        except InputError as error:
            reason = f"because {error}"
        else:
            return real.model
    write_random_judge(folder)
    return f"random tiny judge, {reason}"


def write_random_judge(
    folder: Path,
    shape: ModelConfig = hub_model.TINY,
    deviation: float = 0.2,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a model that replies with one of the two words to any prompt."""
    hub_model.write(folder, _verdicts(), shape, deviation, dtype=dtype)
    set_template(folder, TEMPLATES["qwen_math"])


def _verdicts() -> dict[str, list[str]]:
    """The replies CoRrect and inCoRrect, each in half of all cases.

    A letter decides about the next one, so each has to be there once.
    """
    next_tokens = {"\n": ["C", "i"], "t": [hub_model.END]}
    for letter, following in pairwise("inCoRrect"):
        next_tokens[letter] = [following]
    return next_tokens


def xverify(settings: Settings, folder: Path) -> dict[str, Any]:
    """The section `xverify` of the paper's scale, with the judge of a folder."""
    section = Experiment.load("paper").config.xverify
    assert section is not None
    values = section.model_dump(mode="json") | {"model": str(folder), "revision": None, "url": None}
    if settings.device == "cpu":
        return values | {"server_arguments": _ON_A_CPU}
    total = gpu_bytes("total")
    least = math.ceil(100 * _JUDGE_BYTES / total) / 100 if total else 0.0
    return values | {"training_gpu_memory": max(section.training_gpu_memory, least)}
