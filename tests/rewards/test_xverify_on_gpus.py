"""One server of the judge on each GPU, without vLLM and GPUs (tests/support/fake_vllm)."""

import json
import re
from pathlib import Path

import pytest

from rspo.config.schema import XVerifySettings
from rspo.core.errors import InputError, LostProcess
from rspo.rewards.xverify.judge import XVerify
from tests.support import fake_vllm
from tests.support.judge_server import TEMPLATE, settings
from tests.support.processes import processes_with

GPUS = ["3", "5", "GPU-7f"]
RESPONSES = [str(number) for number in range(60)]


@pytest.fixture
def on_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> XVerifySettings:
    monkeypatch.setenv("PYTHONPATH", fake_vllm.PATH)
    (tmp_path / "model").mkdir()
    return settings(
        model=str(tmp_path / "model"),
        server_arguments=("--gpu-memory-utilization", "0.85"),
        training_gpu_memory=0.07,
        concurrent_requests=4,
        request_seconds=10,
        retry_seconds=10,
    )


def judge_of(on_gpus: XVerifySettings, folder: Path, gpus: list[str]) -> XVerify:
    folder.mkdir(exist_ok=True)
    return XVerify(on_gpus, TEMPLATE, folder / "verdicts", gpus=gpus)


def reasons(judge: XVerify, responses: list[str]) -> list[str]:
    count = len(responses)
    verdicts = judge.judge(["3+4?"] * count, responses, [("7",)] * count)
    return [verdict.reason for verdict in verdicts]


def test_each_gpu_gets_a_server_and_a_similar_number_of_requests(
    on_gpus: XVerifySettings, tmp_path: Path
) -> None:
    with judge_of(on_gpus, tmp_path / "one", []) as judge:
        expected = reasons(judge, RESPONSES)
    with judge_of(on_gpus, tmp_path / "several", GPUS) as judge:
        assert len(processes_with(on_gpus.model)) == 2 * len(GPUS)  # each has a supervisor
        assert reasons(judge, RESPONSES) == expected
    assert set(expected) == {"correct", "incorrect"}
    assert processes_with(on_gpus.model) == []
    logs = [
        (tmp_path / "several" / f"verdicts.server.{number}.log").read_text()
        for number in range(len(GPUS))
    ]
    for gpu, log in zip(GPUS, logs, strict=True):
        first, _, *prompts = log.splitlines()
        assert first.startswith(f"on GPU {gpu}: ")
        # The last one counts.
        assert re.findall(r"--gpu-memory-utilization (\S+)", first) == ["0.85", "0.07"]
        assert len(prompts) > len(RESPONSES) / len(GPUS) / 2
    assert sum(log.count("prompt ") for log in logs) == len(RESPONSES)


# What a server must find in its environment, and why: rspo/core/environment.py.
REQUIRED = {
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "VLLM_DISABLE_COMPILE_CACHE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
CACHES = (
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "VLLM_CACHE_ROOT",
    "FLASHINFER_WORKSPACE_BASE",
    "CUDA_CACHE_PATH",
)


def test_a_server_compiles_nothing_on_a_node_without_nvcc_and_nothing_in_the_home_folder(
    on_gpus: XVerifySettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*REQUIRED, *CACHES):
        monkeypatch.delenv(name, raising=False)
    local = tmp_path / "local"
    local.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(local))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/cuda-compat")  # as a precommand sets it
    with judge_of(on_gpus, tmp_path / "judge", ["3"]) as judge:
        reasons(judge, ["7"])
    log = (tmp_path / "judge" / "verdicts.server.0.log").read_text()
    (line,) = re.findall("^environment (.*)", log, re.MULTILINE)
    variables = json.loads(line)
    assert {name: variables.get(name) for name in REQUIRED} == REQUIRED
    assert variables["LD_LIBRARY_PATH"] == "/cuda-compat"
    for name in CACHES:
        assert Path(variables[name]).is_relative_to(local)


def test_a_server_that_exits_is_one_error_and_the_others_end(
    on_gpus: XVerifySettings, tmp_path: Path
) -> None:
    message = (
        r"the judge's server has exited: RuntimeError: the GPU is lost "
        r"\(see .*/verdicts\.server\.\d\.log\); "
    )
    lost = pytest.raises(LostProcess, match=message + r"\d+ verdicts are stored")
    with lost as error, judge_of(on_gpus, tmp_path, GPUS) as judge:
        reasons(judge, [*RESPONSES, "crash", *(response * 2 for response in RESPONSES)])
    assert "\n" not in str(error.value)
    assert processes_with(on_gpus.model) == []


def test_a_server_that_does_not_start_ends_the_others(
    on_gpus: XVerifySettings, tmp_path: Path
) -> None:
    message = r"has exited: RuntimeError: no such GPU \(see .*/verdicts\.server\.1\.log\)"
    with pytest.raises(InputError, match=message), judge_of(on_gpus, tmp_path, ["3", "broken"]):
        pass
    assert processes_with(on_gpus.model) == []


def test_a_server_that_takes_too_long_is_ended(on_gpus: XVerifySettings, tmp_path: Path) -> None:
    hasty = on_gpus.model_copy(update={"start_seconds": 0.01})
    late = pytest.raises(InputError, match=r"not ready after 0\.01 seconds")
    with late, judge_of(hasty, tmp_path, ["3"]):
        pass
    assert processes_with(on_gpus.model) == []
