"""A cell whose verifier is a judge model, on a server that the training job starts, on a CPU.

Five minutes on two quiet cores: verl and vLLM start three times.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines, write_text
from rspo.policies.templates import TEMPLATES, set_template
from rspo.training.verl.checkpoints import last_step
from tests.support import hub_model, tiny_world
from tests.support.processes import processes_with, wait_until
from tests.training.verl.command import Command

pytestmark = pytest.mark.long

CELL = "small--rspo-pass--k4--n16--s0"
STEPS, PROMPTS, N = 6, 4, 16
ACCEPTED = 0.25  # hub_model.VERDICT


def changes(judge: Path) -> dict[str, Any]:
    return {
        "engine": "verl",
        "verifier": "xverify",
        "training": tiny_world.OVERRIDES["training"]
        | {
            **{"steps": STEPS, "prompts_per_step": PROMPTS, "mini_batch_prompts": PROMPTS},
            **{"checkpoint_every": 1, "validation": {"every": None, "problems": 1, "samples": 1}},
        },
        "xverify": {
            "prompt": {"repository": "upstream", "commit": "0" * 40},
            "model": str(judge),
            "server_arguments": [
                *("--dtype", "float32", "--enforce-eager"),
                *("--max-model-len", str(hub_model.CONTEXT)),
                # Requests have seeds, and vLLM on a CPU cannot read a seeded prompt in parts.
                *("--no-enable-chunked-prefill", "--max-num-batched-tokens"),
                str(hub_model.CONTEXT),
            ],
            "start_seconds": 300,
            "concurrent_requests": 8,
            "request_seconds": 60,
            "retry_seconds": 60,
        },
    }


def start(experiment: Experiment) -> Command:
    return Command(experiment, CELL, {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"})


def killed_after_a_step(experiment: Experiment, program: str) -> str:
    """Kill a process of a run after its next checkpoint; returns the last line of the output."""
    checkpoint, run = experiment.checkpoint(CELL), start(experiment)
    before = last_step(checkpoint)
    while last_step(checkpoint) == before:
        run.require_running()
        time.sleep(0.1)
    run.descendants(f"-m {program} ")[-1].kill()  # its supervisor comes first
    status, line = run.end()
    assert status == 1
    return line


def test_the_judge_serves_a_training_job_and_ends_with_it(tmp_path: Path) -> None:
    judge = tmp_path / "judge"
    hub_model.write(judge, hub_model.VERDICT)
    set_template(judge, TEMPLATES["qwen_math"])
    experiment = tiny_world.load_prepared(tmp_path, **changes(judge))
    write_text(experiment.judge_prompt, "PROMPT = 'Q {question} | O {output} | A {answer}'")
    steps.fetch_judge(experiment).record()

    line = killed_after_a_step(experiment, "rspo.training.verl.driver")
    wait_until(lambda: not processes_with(str(judge)))
    assert "verl's driver exited with status" in line
    line = killed_after_a_step(experiment, "vllm.entrypoints.openai.api_server")
    wait_until(lambda: not processes_with(str(judge)))
    assert line.startswith(f"rspo: error: {CELL}: the judge's server has exited: ")
    assert line.endswith(f"resumes from step {last_step(experiment.checkpoint(CELL))}")

    start(experiment).require_success()
    wait_until(lambda: not processes_with(str(judge)))
    records = read_json_lines(experiment.training_log(CELL))
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    mean = sum(record["correct"] for record in records) / STEPS
    # Equal responses have one verdict, so fewer than these are independent.
    assert mean == pytest.approx(ACCEPTED, abs=5 * (ACCEPTED * 0.75 / (STEPS * PROMPTS * N)) ** 0.5)
    verdicts = experiment.verdicts(CELL, "train").read_text().splitlines()
    keys = [json.loads(verdict)["key"] for verdict in verdicts]
    assert len(keys) == len(set(keys)) > STEPS * PROMPTS
