"""The weights of a real vLLM worker, compared with the folder that it has loaded; 20 s each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from rspo.gpu_check import weights
from tests.support import ROOT, llama_model
from tests.support.random_policy import random_model, save_policy
from tests.support.verl_package import path_with_vllm

pytestmark = pytest.mark.long


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_vllm_worker_has_the_weights_of_its_folder_and_no_others(
    family: str, tmp_path: Path
) -> None:
    folder, file = tmp_path / "model", tmp_path / "sampler.safetensors"
    if family == "llama":
        llama_model.write(folder)
    else:
        save_policy(random_model(context=256), folder)
    command = [sys.executable, "-m", "tests.support.vllm_weights", str(folder), str(file)]
    environment = os.environ | {"PYTHONPATH": path_with_vllm(tmp_path)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    sampler, loaded = load_file(file), weights.load(folder)
    assert any("qkv_proj" in name for name in sampler)
    assert weights.different(sampler, loaded) == []
    name = "model.layers.1.self_attn.v_proj.weight"
    loaded[name][-1, -1] += 1
    (line,) = weights.different(sampler, loaded)
    assert line == f"{name.replace('v_proj', 'qkv_proj')}: differs by up to 1"
