"""verl's vLLM servers: the sockets that send weights to them, and their responses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rspo.training.verl.run import config_text
from tests.support import tiny_world
from tests.support.random_policy import random_model, save_policy
from tests.support.verl_package import path_with_vllm

CELL = "small--rspo-pass--k4--n16--s0"


# Prints where a rank of the actor sends weights, and where vLLM's worker receives them.
ADDRESSES = """
import os, sys
from types import SimpleNamespace
from unittest.mock import patch

os.environ.update(RANK="0", RAY_LOCAL_WORLD_SIZE="1", VERL_RAY_JOB_ID="01000000")
from omegaconf import OmegaConf
from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry
from vllm.utils.import_utils import resolve_obj_by_qualname
import rspo.training.verl.worker

section = OmegaConf.load(sys.argv[1]).actor_rollout_ref.rollout
with patch("ray.get_runtime_context") as context, patch.object(RolloutReplica, "__init__"):
    context().get_job_id.return_value = "01000000"
    sender = get_rollout_class("vllm")(section, {}, None)
    server = RolloutReplicaRegistry.get("vllm")(0, None, None).server_class
server = server.__ray_metadata__.modified_class
extension = resolve_obj_by_qualname(server._get_worker_extension_cls(None))
receiver = object.__new__(extension)
receiver.local_rank, receiver.model_runner = 0, SimpleNamespace()
print(sender.zmq_handle, receiver._get_zmq_handle())
"""


@pytest.mark.ci
def test_two_cells_on_one_host_do_not_share_a_socket(tmp_path: Path) -> None:
    """It is in the cell's folder for temporary files; Ray's job id is the same in every cluster."""
    experiment = tiny_world.load(tmp_path / "world", engine="verl")
    config = OmegaConf.create(config_text(experiment, CELL))
    OmegaConf.resolve(config)
    OmegaConf.save(config, tmp_path / "verl.yaml")
    environment = os.environ | {"PYTHONPATH": path_with_vllm(tmp_path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", ADDRESSES, str(tmp_path / "verl.yaml")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    sending, receiving = done.stdout.splitlines()[-1].split()
    assert sending == receiving
    assert sending.startswith(f"ipc://{tmp_path}/")


@pytest.mark.long
def test_a_server_returns_the_same_tokens_as_verls_but_all_at_once(tmp_path: Path) -> None:
    """Requests have seeds here, so that both servers draw the same random numbers."""
    save_policy(random_model(context=128), tmp_path / "model")
    command = [sys.executable, "-m", "tests.support.vllm_server", str(tmp_path / "model")]
    environment = os.environ | {"PYTHONPATH": path_with_vllm(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    theirs, ours = json.loads(done.stdout.splitlines()[-1])
    lengths = [len(tokens) for tokens in theirs["tokens"]]
    assert len(set(lengths)) > 1
    for key in ("tokens", "log_probs", "reasons"):
        assert ours[key] == theirs[key]
    assert ours["returned"] == len(lengths)
    assert theirs["returned"] > 2 * len(lengths)
