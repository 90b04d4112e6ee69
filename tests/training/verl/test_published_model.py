"""config/smollm.yaml end to end with fewer steps and problems, killed once.

With a small Llama that has no padding token, in place of SmolLM2-135M-Instruct, which
`make gpu-check` trains, also on a CPU. Five minutes on a busy core.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from rspo.cli import parse_overrides
from rspo.config.experiment import Experiment
from rspo.config.merge import merge
from rspo.core.files import read_json_lines
from rspo.core.tables import PROBLEMS, SAMPLES, SCORES, read_table
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.verl.checkpoints import LATEST_FILE, RECORDS_FILE
from tests.support import ROOT, llama_model

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

MODEL = "smollm2-135m"
BASE, CELL = f"{MODEL}--base", f"{MODEL}--rspo-pass--k4--n8--s0"
ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
STEPS, PROMPTS, N, PROBLEMS_EACH = 3, 4, 8, 5
CHANGES = {
    "data.train.generated.problems": 40,
    "data.validation.generated.problems": 4,
    "data.suites.standard.share.generated.problems": PROBLEMS_EACH,
    "data.suites.standard.unknown.generated.problems": PROBLEMS_EACH,
    "sampling.max_prompt_tokens": 400,  # the Llama has fewer tokens, so its prompts have more
    "training.steps": STEPS,
    "training.prompts_per_step": PROMPTS,
    "training.mini_batch_prompts": PROMPTS,
    "training.checkpoint_every": 1,
    "training.validation": {"every": STEPS, "problems": 4, "samples": 4},
    "evaluation": {"samples": 8, "block": 8, "k": [1, 2, 4], "resamples": 50},
    "grid.main.cells": [{"model": MODEL, "objective": "rspo_pass_at_k", "k": 4, "n": N}],
}
OVERRIDES = parse_overrides([f"{key}={json.dumps(to)}" for key, to in CHANGES.items()])
# No padding token, tokens as objects, and an end token that does not end a turn.
TOKENS = {"eos_token": {"__type": "AddedToken", "content": "<|endoftext|>"}, "pad_token": None}


def write_llama(mirror: Path) -> None:
    """Answers a number of up to 12, and sometimes more than fits the limit."""
    responses = [f"\\boxed{{{number}}}" for number in range(2, 13)]
    prose = "the answer is a number of apples in each box and the price of one ticket " * 4
    llama_model.write(mirror / ID, context=512, responses=[*responses, prose, prose], **TOKENS)


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path}


@dataclass(frozen=True)
class Run:
    experiment: Experiment
    before: list[dict[str, object]]  # records in the checkpoint of the killed run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    root = tmp_path_factory.mktemp("smollm")
    shutil.copytree(ROOT / "config", root / "config")
    config = root / "config" / "smollm.yaml"
    config.write_text(yaml.safe_dump(merge(yaml.safe_load(config.read_text()), OVERRIDES)))
    write_llama(root / "mirror")
    log = root / "log"

    def start(*words: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "rspo.cli", *words, "--scale=smollm"]
        with log.open("ab") as output:
            return subprocess.Popen(
                command, cwd=root, env=environment(), stdout=output, stderr=subprocess.STDOUT
            )

    def rspo(*words: str) -> None:
        assert start(*words).wait() == 0, (words, log.read_text()[-3000:])

    for data_set in ("train", "validation", "share", "unknown"):
        rspo("prepare", data_set)
    rspo("pretrain", MODEL, "--mirror", "mirror")
    experiment = Experiment.load("smollm", root=root)
    checkpoint = experiment.checkpoint(CELL)
    first = start("train", CELL)
    while not (checkpoint / LATEST_FILE).exists():
        assert first.poll() is None, log.read_text()[-3000:]
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = json.loads((checkpoint / "global_step_1" / RECORDS_FILE).read_text())
    rspo("train", CELL)
    for policy in (BASE, CELL):
        for command in ("sample", "score", "curves"):
            rspo(command, policy, "standard")
    rspo("figure", "fig_main")
    return Run(experiment, before)


def test_every_step_is_logged_once_with_its_validation(run: Run) -> None:
    records = read_json_lines(run.experiment.training_log(CELL))
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    assert records[:1] == run.before
    assert set(records[-1]["validation"]) >= {"pass_at_1", "pass_at_4"}


def test_correct_responses_are_rewarded_and_others_dropped(run: Run) -> None:
    records = read_json_lines(run.experiment.training_log(CELL))
    assert any(record["correct"] > 0 for record in records)
    for record in records:
        assert (record["zero_weight"] == 1) == (record["gradient_norm"] == 0)
        assert record["zero_weight"] > 0
    assert any(record["finished"] < 1 for record in records)


def test_training_changes_the_policy_and_keeps_its_prompts(run: Run) -> None:
    base, trained = (run.experiment.policy(name) for name in (BASE, CELL))
    before, after = (load_file(folder / "model.safetensors") for folder in (base, trained))
    assert before.keys() == after.keys()
    changes = [(before[name] - after[name]).abs().max().item() for name in before]
    # Adam moves a parameter by about the learning rate per update.
    rate = run.experiment.config.models[MODEL].learning_rate
    assert 0 < max(changes) < 3 * STEPS * rate
    chat = [{"role": "user", "content": "Share 6 apples equally among 2 children."}]
    ours, theirs = (ChatTokenizer(folder) for folder in (base, trained))
    assert ours.prompts([chat]) == theirs.prompts([chat])
    assert ours.end == theirs.end
    assert "\\boxed{4}<|im_end|>" in ours.decode(ours.prompts([chat]))[0]


@pytest.mark.parametrize("policy", [BASE, CELL])
def test_responses_end_with_the_turn_or_at_the_limit(run: Run, policy: str) -> None:
    limit = run.experiment.config.sampling.max_response_tokens
    tokenizer = ChatTokenizer(run.experiment.policy(policy))
    reasons = set()
    for benchmark in ("share", "unknown"):
        problems = read_table(run.experiment.problems(benchmark), PROBLEMS)
        assert len(problems) == PROBLEMS_EACH
        lengths = {len(ids) for ids in tokenizer.prompts([row["prompt"] for row in problems])}
        assert len(lengths) > 1
        suite = run.experiment.suite_of(benchmark)
        samples = read_table(run.experiment.samples(policy, suite, 0), SAMPLES, benchmark)
        scores = read_table(run.experiment.scores(policy, suite, 0), SCORES, benchmark)
        assert len(samples) == len(scores) == PROBLEMS_EACH * 8
        for sample in samples:
            reasons.add(sample["finish_reason"])
            assert "<|im_end|>" not in sample["text"]
            assert sample["finish_reason"] == "stop" or sample["tokens"] == limit
    assert reasons >= {"stop"}
