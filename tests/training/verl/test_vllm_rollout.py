"""The sockets that send weights to vLLM, of two cells on one host."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from rspo.core.supervisor import supervised
from rspo.training.verl.ray_cluster import folder_of, key_of
from rspo.training.verl.run import config_text
from tests.support import tiny_world
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
