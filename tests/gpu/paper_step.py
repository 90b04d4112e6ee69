"""Two steps of the paper's scale, with models of the paper's shapes that need no download.

The config is config/paper.yaml with the settings of its variant `stress`: every response has its
full length, and none is dropped. Only the number of prompts and of checkpoints, the problems and
the files of the models are other ones. On a CPU, the models and the responses are tiny.
"""

import math
import shutil
from pathlib import Path
from typing import Any

import torch

from rspo.analysis import trials
from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines, write_text
from rspo.core.gpus import gpu_bytes
from rspo.pipeline import tasks
from rspo.pipeline.run import record
from rspo.policies.qwen2 import ModelConfig
from tests.gpu import judge
from tests.gpu.settings import CHECKOUT, Settings
from tests.support import hub_model

SCALE = "paper"
MODEL = "qwen2.5-math-1.5b"
TRIAL = "gpu_check"
VARIANT = "stress"
N = 16
# Prompts of each rank: an eighth of the paper's 128, in two mini-batches.
PROMPTS = {"cuda": 16, "cpu": 2}
MINI_BATCHES = 2
STEPS = 2  # of the variant
RESPONSE_TOKENS_ON_A_CPU = 48
# Bytes. The settings of config/paper.yaml are made for GPUs of 80 GB.
LEAST_MEMORY = 75e9

# The architecture of Qwen2.5-Math-1.5B. Its output layer is the embedding; this one has its own,
# 1.8B parameters in total.
POLICY = ModelConfig(
    vocab_size=151_936,
    hidden_size=1536,
    num_hidden_layers=28,
    num_attention_heads=12,
    num_key_value_heads=2,
    intermediate_size=8960,
    max_position_embeddings=4096,
    tie_word_embeddings=False,
)
# The architecture of Qwen2.5-0.5B, which is that of xVerify-0.5B.
JUDGE = ModelConfig(
    vocab_size=151_936,
    hidden_size=896,
    num_hidden_layers=24,
    num_attention_heads=14,
    num_key_value_heads=2,
    intermediate_size=4864,
    max_position_embeddings=hub_model.CONTEXT,
    tie_word_embeddings=False,
)
# The standard deviation with which such models are published as untrained ones, and a factor with
# which attention and feed-forward change the probabilities of tokens by some percent.
DEVIATION = 0.02
MIXING = 0.001


def why_not(settings: Settings) -> str:
    """Why these steps do not fit on the node; empty if they do."""
    if settings.device == "cpu":
        return ""
    memory = gpu_bytes("total")
    if memory and memory < LEAST_MEMORY:
        return f"a GPU has {memory / 1e9:.0f} GB; the paper's settings need 80 GB"
    return ""


def endless_answers() -> dict[str, list[str]]:
    r"""After the prompt's last newline: \boxed{, a digit, }, a newline, and so on, endlessly."""
    answers = dict(hub_model.ANSWER)
    for digit in "0123456789":
        answers[digit] = ["}"]
    answers["}"] = ["\n"]
    return answers


def write_models(settings: Settings) -> Path:
    """Write the policy and the judge; returns the mirror that has the policy."""
    mirror = settings.folder / "mirror"
    policy = mirror / _hub_name()
    if settings.device == "cpu":
        hub_model.write(policy, endless_answers())
        judge.write_random_judge(judge_folder(settings))
        return mirror
    hub_model.write(policy, endless_answers(), POLICY, DEVIATION, MIXING, torch.bfloat16)
    judge.write_random_judge(judge_folder(settings), JUDGE, DEVIATION, torch.bfloat16)
    return mirror


def _hub_name() -> str:
    """The name of the model on the hub, which is that of its folder in a mirror."""
    hub = Experiment.load(SCALE, root=CHECKOUT).config.models[MODEL].hub
    assert hub is not None
    return hub.id


def judge_folder(settings: Settings) -> Path:
    return settings.folder / "paper-judge"


def overrides(settings: Settings) -> dict[str, Any]:
    """What differs from config/paper.yaml."""
    ranks = settings.ranks
    prompts = PROMPTS[settings.device] * ranks
    problems = {"families": ["share", "unknown"], "split": "train", "problems": 800}
    held_out = {"families": ["share", "unknown"], "split": "validation", "problems": 10}
    changes: dict[str, Any] = {
        "data": {
            "train": {"hub": None, "generated": problems},
            "validation": {"hub": None, "generated": held_out},
        },
        "training": {
            "prompts_per_step": prompts,
            "mini_batch_prompts": prompts // MINI_BATCHES,
            "validation": {"problems": 20},  # they are made, and not used
        },
        "models": {MODEL: {"gpus": ranks}},
        "verl": {"device": settings.device, "ranks": ranks},
        "xverify": judge.xverify(settings, judge_folder(settings)),
        # The variant has one after each step, and two on the disk at the same time, of 28 GB each.
        "variants": {VARIANT: {"training": {"checkpoint_every": STEPS}}},
        "trials": {
            TRIAL: {
                "cells": [
                    {
                        "model": MODEL,
                        "objective": "rspo_pass_at_k",
                        "k": 4,
                        "n": N,
                        "variant": VARIANT,
                    }
                ],
                "checks": ["sampler", "full_length", "judge"],
            }
        },
    }
    if settings.device == "cpu":
        changes["sampling"] = {
            "max_prompt_tokens": 1024,
            "max_response_tokens": RESPONSE_TOKENS_ON_A_CPU,
        }
        changes["models"][MODEL]["verl"] = {
            "actor_rollout_ref": {"actor": {"ppo_max_token_len_per_gpu": 4096}}
        }
    return changes


def experiment_of(settings: Settings) -> Experiment:
    return Experiment.load(SCALE, overrides(settings), CHECKOUT, settings.folder / "paper")


def train(settings: Settings) -> str:
    """Train the two steps; returns what was measured, and removes the models and the results.

    Raises: AssertionError if a gradient is not finite or zero, or a check of the trial fails.
    """
    mirror = write_models(settings)
    experiment = experiment_of(settings)
    (cell,) = [cell.name for cell in experiment.cells_of(TRIAL)]
    write_text(experiment.files.judge_prompt, f"PROMPT = {judge.PROMPT!r}\n")
    record(tasks.fetch_judge(experiment))

    def rspo(*words: str) -> None:
        settings.rspo_offline(words, SCALE, overrides(settings), experiment.files.results)

    rspo("prepare", "train")
    rspo("prepare", "validation")
    rspo("pretrain", MODEL, f"--mirror={mirror}")
    rspo("train", cell)
    records = read_json_lines(experiment.files.training_log(cell))
    for step in records:
        norm = step["gradient_norm"]
        assert 0 < norm < math.inf, f"step {step['step']}: the norm of the gradient is {norm}"
    outcomes = trials.outcomes(experiment, TRIAL)
    failed = [f"{outcome.check}: {outcome.found}" for outcome in outcomes if not outcome.is_met]
    assert not failed, "; ".join(failed)
    measured = _measured(records[-1], settings.ranks, experiment)
    shutil.rmtree(mirror / _hub_name())
    shutil.rmtree(judge_folder(settings))
    shutil.rmtree(experiment.files.results)
    return measured


def _measured(step: dict[str, Any], ranks: int, experiment: Experiment) -> str:
    """The seconds, memory and rates of a step, in words."""
    seconds: dict[str, float] = step["seconds"]
    phases = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    responses = N * experiment.config.training.prompts_per_step
    parts = [
        f"{ranks} {'rank' if ranks == 1 else 'ranks'}",
        f"{responses} responses of {step['response_tokens']:.0f} tokens",
        f"second step {sum(seconds.values()):.0f} s ({phases})",
        f"difference of the sampler {step['sampler']['difference']:.4f}",
        f"at most {max(step['memory_gb'].values()):.0f} GB",
    ]
    if "mfu" in step:
        parts.append(f"MFU of the updates {step['mfu']:.2f}")
    return "; ".join(parts)
