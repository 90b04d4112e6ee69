"""Two cells train on one node at the same time: nothing that they open or write is the other's."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from rspo.config.schema import XVerifySettings
from rspo.rewards.xverify.server import serving
from rspo.training.verl import trainer
from rspo.training.verl.ray_cluster import folder_of, key_of
from tests.support import fake_vllm, paper_scale
from tests.support.judge_server import settings

CELLS = ["qwen2.5-math-1.5b--rspo-pass--k4--n16--s0", "qwen2.5-math-1.5b--grpo--k1--n16--s0"]

# A cluster with an actor and an object of a megabyte in shared memory. It prints where all of this
# is, and ends when its input closes.
_CLUSTER = """
import json, os, sys, tempfile
from pathlib import Path
from omegaconf import OmegaConf
from rspo.training.verl import ray_cluster

settings = {"num_cpus": 2, "include_dashboard": False, "log_to_driver": False}
settings["object_store_memory"] = 134217728
config = OmegaConf.create({"ray_kwargs": {"ray_init": settings}})
ray_cluster.start(config, Path(sys.argv[1]))

import ray  # not earlier: it reads the variables that `start` sets
from ray._private import state

@ray.remote
class Rank:
    def about(self):
        return [os.getpid(), tempfile.gettempdir()]

rank = Rank.options(name="rank").remote()  # the same name in both clusters
process, temporary = ray.get(rank.about.remote())
ray.put(b"x" * 1_000_000)
node = ray._private.worker._global_node
print(json.dumps({
    "gcs": node.gcs_address,
    "store": node.plasma_store_socket_name,
    "raylet": node.raylet_socket_name,
    "session": node.get_session_dir_path(),
    "token": os.environ["RAY_AUTH_TOKEN"],
    "driver": tempfile.gettempdir(),
    "temporary": temporary,
    "process": process,
    "actors": [actor["Pid"] for actor in state.actors().values()],
}), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folders() -> Iterator[list[Path]]:
    """Two folders with short names, as Ray needs them."""
    with ExitStack() as stack:
        names = [stack.enter_context(tempfile.TemporaryDirectory(prefix="rs")) for _ in CELLS]
        yield [Path(name) for name in names]


def test_each_cell_has_a_folder_and_a_mark_of_its_own(tmp_path: Path) -> None:
    experiment = paper_scale.load(tmp_path)
    cells = [experiment.files.folder(name) for name in experiment.cells]
    other = [experiment.files.folder(name).with_name(f"{name}-2") for name in experiment.cells]
    everything = cells + other
    assert len({folder_of(cell) for cell in everything}) == len(everything)
    assert len({key_of(cell) for cell in everything}) == len(everything)


@pytest.mark.ci
def test_two_clusters_of_ray_on_a_node_share_nothing(folders: list[Path]) -> None:
    """Neither ports, sockets, folders and tokens, nor actors of the same name."""
    pytest.importorskip("ray")
    starting = []
    for folder in folders:
        process = subprocess.Popen(
            [sys.executable, "-c", _CLUSTER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        starting.append(process)
    try:
        found = [json.loads(next(_objects(process))) for process in starting]
        # Both still run, so that what they have is open at the same time.
        assert [process.poll() for process in starting] == [None, None]
        for name in found[0].keys() - {"actors"}:
            assert found[0][name] != found[1][name], name
        for one, folder in zip(found, folders, strict=True):
            assert one["actors"] == [one["process"]]
            for name in ("store", "raylet", "session", "driver", "temporary"):
                assert Path(one[name]).is_relative_to(folder), name
    finally:
        for process in starting:
            _end(process)


def _objects(process: "subprocess.Popen[str]") -> Iterator[str]:
    """The lines of a process that are JSON objects; libraries may print others."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):
            yield line
    raise AssertionError(f"the cluster ended with status {process.wait()}")


def _end(process: "subprocess.Popen[str]") -> None:
    """End a cluster with all of its processes."""
    children = psutil.Process(process.pid).children(recursive=True)
    assert process.stdin is not None
    process.stdin.close()
    process.wait(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=30)
    for child in alive:
        child.kill()


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> XVerifySettings:
    """The settings of a judge that a fake vLLM serves."""
    monkeypatch.setenv("PYTHONPATH", fake_vllm.PATH)
    model = tmp_path / "model"
    model.mkdir()
    return settings(model=str(model), start_seconds=60)


def test_judges_of_two_jobs_have_their_own_sockets_and_logs(
    tmp_path: Path, judge: XVerifySettings
) -> None:
    """With the same TMPDIR, as two jobs of a user on a node have, and GPUs of the same number."""
    with ExitStack() as stack:
        jobs = [
            stack.enter_context(
                serving(judge, tmp_path / cell / "train.server.log", gpus=["0", "1"])
            )
            for cell in CELLS
        ]
        servers = [server for job in jobs for server in job]
        assert len({server.socket for server in servers}) == 4
        assert len({server.log for server in servers}) == 4
        for server in servers:
            server.check()
    assert not any(server.socket.exists() for server in servers)


def test_the_end_of_one_job_leaves_the_judges_of_the_other(
    tmp_path: Path, judge: XVerifySettings
) -> None:
    with serving(judge, tmp_path / "first.log", gpus=["0"]) as staying:
        with serving(judge, tmp_path / "second.log", gpus=["0"]) as leaving:
            assert leaving[0].socket != staying[0].socket
        assert not leaving[0].socket.exists()
        assert staying[0].socket.exists()
        staying[0].check()


@pytest.mark.parametrize(
    ("visible", "gpus", "expected"),
    [
        ("4,5,6,7", 4, ["4", "5", "6", "7"]),  # the second job of a node without cgroups
        ("0,1,2,3", 4, ["0", "1", "2", "3"]),
        (None, 4, ["0", "1", "2", "3"]),
        ("0,1,2,3,4,5,6,7", 8, [str(number) for number in range(8)]),
    ],
)
def test_the_judges_of_a_cell_use_the_gpus_of_its_job(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    visible: str | None,
    gpus: int,
    expected: list[str],
) -> None:
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    models: dict[str, Any] = {"qwen2.5-math-1.5b": {"gpus": gpus}}
    experiment = paper_scale.load(tmp_path, models=models)
    assert trainer._gpus(experiment.for_cell(CELLS[0])) == expected
