"""Processor time of one tiny cell: training and evaluation, including the start of each process.

It runs the same commands as `snakemake all`, in a temporary folder. The result is in units of a
training step of transformers' Qwen2 of the same size, timed between the commands, because the speed
of a shared machine can change by a factor of two within an hour.
"""

import shutil
import tempfile
from pathlib import Path
from statistics import fmean

import torch
from transformers import AutoModelForCausalLM, Qwen2Config

from benchmarks import Row, child_cpu_seconds, median_cpu_seconds, readable, rspo_command
from rspo.config.experiment import Experiment

ROOT = Path(__file__).resolve().parent.parent
CELL = "small--rspo-pass--k4--n16--s0"
SUITE = "standard"
# In training steps of transformers' Qwen2. The budget of a cell is 80 s of processor time on a
# machine where 2600 of these steps take 110 s.
LIMIT = 80 / 110 * 2600


def run() -> list[Row]:
    """The processor time of each command, and of training and evaluation in reference steps."""
    experiment = Experiment.load("tiny", root=ROOT)
    step = ReferenceStep(experiment)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "config", folder / "config")
        for data_set in experiment.data_sets:
            _cpu_seconds(folder, "prepare", data_set)
        pretraining = _cpu_seconds(folder, "pretrain", experiment.cells[CELL].model)
        # The reference is timed before, between and after the commands, whose speed may drift.
        step.measure()
        training = _cpu_seconds(folder, "train", CELL)
        step.measure()
        evaluating = sum(
            _cpu_seconds(folder, command, CELL, SUITE) for command in ("sample", "score", "curves")
        )
        step.measure()
    steps = (training + evaluating) / step.seconds
    return [
        Row("pretraining of the small base policy", readable(pretraining)),
        Row(f"training of {CELL}", readable(training)),
        Row(f"its evaluation on the suite {SUITE}", readable(evaluating)),
        Row("a training step of transformers' Qwen2 of its size", readable(step.seconds)),
        Row(
            "training and evaluation, in such steps",
            f"{steps:.0f}",
            f"<= {LIMIT:.0f}",
            steps <= LIMIT,
        ),
    ]


class ReferenceStep:
    """A training step of transformers' Qwen2, with the batch size of our pretraining."""

    def __init__(self, experiment: Experiment) -> None:
        scratch = experiment.config.models["small"].scratch
        sampling = experiment.config.sampling
        assert scratch is not None
        vocabulary = 64  # about the size of the tiny tokenizer's vocabulary
        self._seconds: list[float] = []
        self._model = AutoModelForCausalLM.from_config(
            Qwen2Config(
                vocab_size=vocabulary,
                hidden_size=scratch.hidden_size,
                num_hidden_layers=scratch.layers,
                num_attention_heads=scratch.heads,
                num_key_value_heads=scratch.heads,
                intermediate_size=scratch.feed_forward,
                tie_word_embeddings=True,
            )
        )
        self._optimizer = torch.optim.AdamW(self._model.parameters())
        length = sampling.max_prompt_tokens + sampling.max_response_tokens
        self._tokens = torch.randint(vocabulary, (scratch.batch, length))

    def measure(self) -> None:
        """Time the step, as one of the measurements of which `seconds` is the mean."""
        self._seconds.append(median_cpu_seconds({"step": self._step}, repeats=50)["step"])

    @property
    def seconds(self) -> float:
        """The processor seconds of a step, as the mean of all measurements."""
        return fmean(self._seconds)

    def _step(self) -> None:
        self._optimizer.zero_grad()
        self._model(input_ids=self._tokens, labels=self._tokens).loss.backward()
        self._optimizer.step()


def _cpu_seconds(folder: Path, *arguments: str) -> float:
    """Run a command of `rspo` in a folder, and return its processor seconds."""
    return child_cpu_seconds(rspo_command(arguments), cwd=folder)
