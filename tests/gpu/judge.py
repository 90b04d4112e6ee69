"""A judge for a training on one GPU, and the overrides of the config for it."""

import math
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.gpus import gpu_bytes
from rspo.core.hub import fetch_files
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
# "CoRrect" or "inCoRrect", each in half of all replies: a letter decides about the next one.
_VERDICTS: dict[str, list[str]] = {
    "\n": ["C", "i"],
    **{a: [b] for a, b in zip("inCoRrec", "nCoRrect", strict=True)},
    "t": [hub_model.END],
}
_ON_A_CPU = (
    *("--dtype", "float32", "--enforce-eager", "--max-model-len", str(hub_model.CONTEXT)),
    # Requests have seeds, and vLLM on a CPU cannot read a seeded prompt in parts.
    *("--no-enable-chunked-prefill", "--max-num-batched-tokens", str(hub_model.CONTEXT)),
    *("--kv-cache-memory-bytes", str(2**30)),
)


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


def write_random_judge(folder: Path) -> None:
    """Write a tiny model that replies with one of the two words to any prompt."""
    hub_model.write(folder, _VERDICTS)
    set_template(folder, TEMPLATES["qwen_math"])


def xverify(settings: Settings, folder: Path) -> dict[str, Any]:
    """The section `xverify` of the paper's scale, with the judge of a folder."""
    section = Experiment.load("paper").config.xverify
    assert section is not None
    values = section.model_dump(mode="json") | {"model": str(folder), "revision": None, "url": None}
    if settings.device == "cpu":
        return values | {"server_arguments": list(_ON_A_CPU)}
    total = gpu_bytes("total")
    least = math.ceil(100 * _JUDGE_BYTES / total) / 100 if total else 0.0
    return values | {"training_gpu_memory": max(section.training_gpu_memory, least)}
