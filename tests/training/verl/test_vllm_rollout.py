"""verl's vLLM servers: the sockets that send weights to them, and their responses."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from rspo.core.supervisor import supervised
from rspo.training.verl.ray_cluster import folder_of, key_of
from rspo.training.verl.run import config_text
from tests.support import tiny_world
from tests.support.random_policy import random_model, save_policy
from tests.support.verl_package import path_with_vllm

CELL = "small--rspo-pass--k4--n16--s0"


@pytest.mark.ci
def test_two_cells_on_one_host_do_not_share_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", path_with_vllm(tmp_path))
    numbers, processes, folders = (1, 2), [], []
    with ExitStack() as stack:
        for number in numbers:
            experiment = tiny_world.load(tmp_path / str(number), engine="verl")
            cell, config = experiment.folder(CELL), tmp_path / f"{number}.yaml"
            config.write_text(config_text(experiment, CELL))
            folders.append(folder_of(cell, rank=0))
            arguments = [str(config), str(folders[-1]), str(number)]
            command = [sys.executable, "-m", "tests.support.weight_transfer", *arguments]
            process = supervised(command, key_of(cell, rank=0), folders[-1])
            processes.append(stack.enter_context(process))
        assert [process.wait() for process in processes] == [0, 0]
    results = [json.loads((tmp_path / f"{number}.json").read_text()) for number in numbers]
    for number, folder, result in zip(numbers, folders, results, strict=True):
        sending, receiving = result["addresses"]
        assert sending == receiving
        assert sending.startswith(f"ipc://{folder}/")
        assert result["received"] == [number]


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
