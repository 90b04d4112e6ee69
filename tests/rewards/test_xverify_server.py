"""The judge's vLLM server with a tiny model: start, failures and end."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rspo.config.schema import XVerifySettings
from rspo.rewards.xverify.judge import XVerify
from rspo.rewards.xverify.server import _command
from tests.support import ROOT, paper_scale
from tests.support.judge_server import settings
from tests.support.processes import LONGEST_WAIT, processes_with, wait_until
from tests.support.random_policy import random_model, save_policy

pytestmark = pytest.mark.ci

ON_A_CPU = ("--dtype", "float32", "--enforce-eager", "--max-model-len", "4096")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen2 with random weights, whose replies are never valid."""
    return save_policy(random_model(context=4096), tmp_path_factory.mktemp("judge"))


@pytest.fixture
def tiny_judge(model: Path, monkeypatch: pytest.MonkeyPatch) -> XVerifySettings:
    for name, value in {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "OMP_NUM_THREADS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    return settings(
        model=str(model),
        server_arguments=ON_A_CPU,
        start_seconds=300,
        request_seconds=60,
        retry_seconds=10,
    )


def test_a_judge_starts_its_server_once_and_leaves_no_process(
    tiny_judge: XVerifySettings, model: Path, tmp_path: Path
) -> None:
    """The model comes from a folder and keeps its name on the hub."""
    template, published = "{question} {output} {answer}", {"model": "a/judge", "revision": "b" * 40}
    named = tiny_judge.model_copy(update=published)
    with XVerify(named, template, tmp_path / "verdicts", model) as judge:
        assert processes_with(str(model)) == []  # no request yet
        for responses in (["7", "8", "9"], ["7", "1"]):
            verdicts = judge.judge(["3+4"] * len(responses), responses, [("7",)] * len(responses))
            assert {verdict.reason for verdict in verdicts} == {"invalid reply"}
        log = (tmp_path / "verdicts.server.log").read_text()
        assert log.count("Started server process") == 1
        assert processes_with(str(model))
    wait_until(lambda: not processes_with(str(model)))
    assert len((tmp_path / "verdicts").read_text().splitlines()) == 4


PROGRAM = """
import sys, time
from pathlib import Path
from rspo.config.schema import XVerifySettings
from rspo.rewards.xverify.server import serving
with serving(XVerifySettings.model_validate_json(sys.argv[1]), Path(sys.argv[2])):
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_server_ends_with_the_process_that_started_it(
    tiny_judge: XVerifySettings, model: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """All processes that vLLM has started so far must end."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tiny_judge.model_dump_json(), str(tmp_path / "log")],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: len(processes_with(str(model))) >= 3)  # the last one is vLLM
    process.send_signal(number)
    process.wait(LONGEST_WAIT)
    wait_until(lambda: not processes_with(str(model)))


def test_vllm_accepts_the_papers_arguments(tmp_path: Path) -> None:
    """Those of a training job come last, and take precedence."""
    from vllm.entrypoints.openai.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    paper = paper_scale.load(tmp_path).config.xverify
    assert paper is not None
    arguments = [*_command(paper, tmp_path)[3:], "--gpu-memory-utilization", "0.06"]
    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(arguments)
    assert (parsed.model, parsed.gpu_memory_utilization) == (str(tmp_path), 0.06)
    assert (parsed.max_num_seqs, parsed.enforce_eager) == (paper.concurrent_requests, True)
