"""The servers of the judge that a training job starts; tests/gpu/test_node.py has a real one."""

from pathlib import Path
from typing import Any

import pytest

from rspo.config.experiment import Experiment
from rspo.core.files import write_text
from rspo.training.verl import trainer
from rspo.training.verl.verl_config import verl_config
from tests.support import fake_vllm, paper_scale
from tests.support.processes import processes_with

CELL = "qwen2.5-math-1.5b--rspo-pass--k4--n16--s0"


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """The paper's scale with the files of the judge, and a server without a model."""
    monkeypatch.setenv("PYTHONPATH", fake_vllm.PATH)
    experiment = paper_scale.load(tmp_path)
    write_text(experiment.files.judge_prompt, "PROMPT = 'Q {question} | O {output} | A {answer}'")
    assert experiment.judge_model is not None
    experiment.judge_model.mkdir(parents=True)
    return experiment


@pytest.mark.parametrize("visible", [None, "7,6,5,4"])
def test_a_training_job_starts_a_judge_on_each_gpu_before_the_policy(
    judged: Experiment, monkeypatch: pytest.MonkeyPatch, visible: str | None
) -> None:
    events: list[str] = []

    class Trainer:
        def __init__(self, config: Any, verify: Any) -> None:
            self.verify = verify

        def init(self) -> None:
            assert len(processes_with(str(judged.judge_model))) == 2 * 4  # with supervisors
            (verdict,) = self.verify(["7"], [("7",)], questions=["3+4?"])
            events.append(verdict.reason)

        def get_llm_client(self) -> None: ...

        get_teacher_client = get_llm_client

        def fit(self, agents: None) -> None:
            events.append("trained")

    monkeypatch.setattr(trainer.transfer_queue, "init", lambda _: None)
    monkeypatch.setattr(trainer.AgentLoopManagerTQ, "create", lambda **_: None)
    monkeypatch.setattr(trainer, "RSPOTrainer", Trainer)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    trainer.train(verl_config(judged.for_cell(CELL), CELL))
    assert events == ["correct", "trained"]
    assert processes_with(str(judged.judge_model)) == []
    logs = judged.files.verdicts(CELL, "train").parent.glob("train.server.*.log")
    gpus = [log.read_text().split(":")[0] for log in sorted(logs)]
    expected = visible.split(",") if visible else [str(number) for number in range(4)]
    assert gpus == [f"on GPU {gpu}" for gpu in expected]
