"""Verification of responses while others are sampled, the servers of the judge, and routing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transfer_queue import KVBatchMeta

from rspo.config.experiment import Experiment
from rspo.core.files import write_text
from rspo.training.verl import task, verification
from rspo.training.verl.verification import Verification
from rspo.training.verl.verl_config import verl_config
from tests.support import fake_vllm, paper_scale
from tests.support.processes import processes_with

CELL = "qwen2.5-math-1.5b--rspo-pass--k4--n16--s0"
N = 3


def snapshot(ended: str, running: str) -> dict[str, dict[str, dict[str, Any]]]:
    """The queue's tags: a letter is a prompt, and those that run have one response."""
    tags: dict[str, dict[str, Any]] = {}
    for prompt, status, responses in [
        *((prompt, "finished", N) for prompt in ended),
        *((prompt, "running", 1) for prompt in running),
    ]:
        tags[prompt] = {"is_prompt": True, "status": status}
        tags |= {f"{prompt}_{number}_0": {"status": "success"} for number in range(responses)}
    return {"train": tags}


def test_responses_are_verified_while_others_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as all responses to their prompt are there, and each once."""
    snapshots = iter(
        [{}, snapshot("", "abc"), snapshot("b", "ac"), snapshot("ba", "c"), snapshot("bac", "")]
    )
    left = ["nothing"]
    batches: list[list[str]] = []

    def verify(keys: Sequence[str], *_: Any) -> Any:
        batches.append(list(keys))
        return np.array([key.startswith("b") for key in keys])

    monkeypatch.setattr(verification.transfer_queue, "kv_list", lambda _: next(snapshots))
    monkeypatch.setattr(verification.time, "sleep", lambda _: left.append("a pause"))
    monkeypatch.setattr(
        verification,
        "fields",
        lambda batch, *_: {"responses": batch.keys, "index": [0] * len(batch.keys)},
    )
    monkeypatch.setattr(verification, "response_tokens", lambda data: data["responses"])
    monkeypatch.setattr(verification, "verify_tokens", verify)
    of_train = Verification("train", None, [0], None, None)
    of_train.until_sampled(3)
    assert batches == [[f"b_{number}_0" for number in range(N)], [f"a_{n}_0" for n in range(N)]]
    keys = [f"{prompt}_{number}_0" for prompt in "abc" for number in range(N)]
    batch = KVBatchMeta(keys=keys, tags=[{}] * len(keys), partition_id="train")
    assert of_train.of(batch).tolist() == [False] * N + [True] * N + [False] * N
    assert batches[2:] == [[f"c_{number}_0" for number in range(N)]]


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """The paper's scale with the files of the judge, and a server without a model."""
    monkeypatch.setenv("PYTHONPATH", fake_vllm.PATH)
    experiment = paper_scale.load(tmp_path)
    write_text(experiment.judge_prompt, "PROMPT = 'Q {question} | O {output} | A {answer}'")
    assert experiment.judge_model is not None
    experiment.judge_model.mkdir(parents=True)
    return experiment


@pytest.mark.parametrize("visible", [None, "7,6,5,4,3,2,1,0"])
def test_a_training_job_starts_a_judge_on_each_gpu_before_the_policy(
    judged: Experiment, monkeypatch: pytest.MonkeyPatch, visible: str | None
) -> None:
    events: list[str] = []

    class Trainer:
        def __init__(self, config: Any, verify: Any) -> None:
            self.verify = verify

        def init(self) -> None:
            assert len(processes_with(str(judged.judge_model))) == 2 * 8  # with supervisors
            (verdict,) = self.verify(["7"], [("7",)], questions=["3+4?"])
            events.append(verdict.reason)

        def get_llm_client(self) -> None: ...

        get_teacher_client = get_llm_client

        def fit(self, agents: None) -> None:
            events.append("trained")

    monkeypatch.setattr(task.transfer_queue, "init", lambda _: None)
    monkeypatch.setattr(task.AgentLoopManagerTQ, "create", lambda **_: None)
    monkeypatch.setattr(task, "Trainer", Trainer)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    task.train(verl_config(judged, CELL))
    assert events == ["correct", "trained"]
    assert processes_with(str(judged.judge_model)) == []
    logs = judged.verdicts(CELL, "train").parent.glob("train.server.*.log")
    gpus = [log.read_text().split(":")[0] for log in sorted(logs)]
    expected = visible.split(",") if visible else [str(number) for number in range(8)]
    assert gpus == [f"on GPU {gpu}" for gpu in expected]
