"""A step of verl whose responses are verified by a judge's server beside the policy's."""

import math
import shutil
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment, base_name
from rspo.core.errors import InputError
from rspo.core.files import read_json_lines, write_text
from rspo.core.gpus import gpu_bytes
from rspo.core.hub import fetch_files
from rspo.gpu_check.random_judge import CONTEXT, write_random_judge
from rspo.gpu_check.settings import JUDGED, CheckFailed, Settings
from rspo.rewards.verdict import CORRECT, INCORRECT

# Of the smallest xVerify: weights, what vLLM needs to compute, and a cache.
_JUDGE_BYTES = 4.0e9
# Not the authors' prompt, whose repository a node may not reach.
_PROMPT = """\
Question: {question}
Response: {output}
Correct answer: {answer}
Is the final answer of the response the correct answer? Reply with one word: correct or incorrect.
"""
_ON_A_CPU = (
    *("--dtype", "float32", "--enforce-eager", "--max-model-len", str(CONTEXT)),
    # Requests have seeds, and vLLM on a CPU cannot read a seeded prompt in parts.
    *("--no-enable-chunked-prefill", "--max-num-batched-tokens", str(CONTEXT)),
    *("--kv-cache-memory-bytes", str(2**30)),
)


def check(settings: Settings) -> str:
    folder = Path(settings.folder) / "judge"
    name = _fetch(settings, folder)
    changes = changes_with(settings, folder)
    experiment, cell = settings.experiment(changes), settings.cell(JUDGED)
    write_text(experiment.judge_prompt, f"PROMPT = {_PROMPT!r}\n")
    settings.rspo("train", cell, changes=changes)
    verdicts = [row["verdict"] for row in read_json_lines(experiment.verdicts(cell, "train"))]
    correct, incorrect = verdicts.count(CORRECT), verdicts.count(INCORRECT)
    if 2 * (correct + incorrect) <= len(verdicts):
        raise CheckFailed(
            f"{name}: only {correct + incorrect} of {len(verdicts)} replies are verdicts"
        )
    shutil.rmtree(experiment.folder(cell))
    return f"{name}: {correct} of {len(verdicts)} different responses judged correct"


def changes_with(settings: Settings, folder: Path) -> dict[str, Any]:
    """Overrides of the config for the judge in a folder."""
    return {
        "seeds": JUDGED + 1,
        "verifier": "xverify",
        "xverify": _xverify(settings, folder),
        "training": {"steps": 1, "validation": {"every": None}},
    }


def _fetch(settings: Settings, folder: Path) -> str:
    """Write a judge to a folder, and return its name."""
    real = Experiment.load("paper").config.xverify
    assert real is not None
    reason = "on a CPU"
    if settings.device == "cuda":
        mirror = Path(settings.mirror) if settings.mirror else None
        try:
            fetch_files(real.model, real.revision, folder, mirror)
        except InputError as error:
            reason = f"because {error}"
        else:
            return real.model
    policy = settings.experiment().policy(base_name(settings.model))
    write_random_judge(folder, policy)
    return f"random tiny judge, {reason}"


def _xverify(settings: Settings, folder: Path) -> dict[str, Any]:
    """The section `xverify` of the paper's scale, with the judge of a folder."""
    section = Experiment.load("paper").config.xverify
    assert section is not None
    values = section.model_dump(mode="json") | {"model": str(folder), "revision": None, "url": None}
    if settings.device == "cpu":
        return values | {"server_arguments": list(_ON_A_CPU)}
    total = gpu_bytes("total")
    least = math.ceil(100 * _JUDGE_BYTES / total) / 100 if total else 0.0
    return values | {"training_gpu_memory": max(section.training_gpu_memory, least)}
