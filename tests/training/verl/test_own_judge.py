"""A cell whose verifier is a judge model, on a server that the training job starts, on a CPU.

Five minutes on two quiet cores: verl and vLLM start three times.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.files import read_json_lines, write_text
from rspo.policies.templates import TEMPLATES, set_template
from rspo.training.verl.checkpoints import last_step
from tests.support import ROOT, hub_model, tiny_world
from tests.support.processes import processes_with, wait_until

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


class Run:
    """`rspo train CELL` in its own process."""

    def __init__(self, experiment: Experiment, judge: Path) -> None:
        root = experiment.reports.parent
        self.checkpoint, self.judge, self.log = experiment.checkpoint(CELL), judge, root / "log"
        own = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                tiny_world.command("train", CELL),
                cwd=root,
                env=os.environ | own,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def kill_after_a_step(self, program: str) -> str:
        """Kill a process after the next checkpoint; returns the last line of the output."""
        before = last_step(self.checkpoint)
        while last_step(self.checkpoint) == before:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            time.sleep(0.1)
        matching = [
            process
            for process in psutil.Process(self.process.pid).children(recursive=True)
            if f"-m {program} " in " ".join(process.cmdline())
        ]
        matching[-1].send_signal(signal.SIGKILL)  # its supervisor comes first
        assert self.process.wait() == 1
        wait_until(lambda: not processes_with(str(self.judge)))
        return self.log.read_text().rstrip("\n").rsplit("\n", 1)[-1]


def test_the_judge_serves_a_training_job_and_ends_with_it(tmp_path: Path) -> None:
    judge = tmp_path / "judge"
    hub_model.write(judge, hub_model.VERDICT)
    set_template(judge, TEMPLATES["qwen_math"])
    experiment = tiny_world.load_prepared(tmp_path, **changes(judge))
    write_text(experiment.judge_prompt, "PROMPT = 'Q {question} | O {output} | A {answer}'")
    steps.fetch_prompt(experiment).record()

    line = Run(experiment, judge).kill_after_a_step("rspo.training.verl.driver")
    assert "verl's driver exited with status" in line
    line = Run(experiment, judge).kill_after_a_step("vllm.entrypoints.openai.api_server")
    assert line.startswith(f"rspo: error: {CELL}: the judge's server has exited: ")
    assert line.endswith(f"resumes from step {last_step(experiment.checkpoint(CELL))}")

    last = Run(experiment, judge)
    assert last.process.wait() == 0, last.log.read_text()[-3000:]
    wait_until(lambda: not processes_with(str(judge)))
    records = read_json_lines(experiment.training_log(CELL))
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
    mean = sum(record["correct"] for record in records) / STEPS
    # Equal responses have one verdict, so fewer than these are independent.
    assert mean == pytest.approx(ACCEPTED, abs=5 * (ACCEPTED * 0.75 / (STEPS * PROMPTS * N)) ** 0.5)
    verdicts = experiment.verdicts(CELL, "train").read_text().splitlines()
    keys = [json.loads(verdict)["key"] for verdict in verdicts]
    assert len(keys) == len(set(keys)) > STEPS * PROMPTS
