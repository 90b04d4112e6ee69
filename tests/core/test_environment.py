"""The environment variables of vLLM and of the caches of compiled kernels."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rspo.core import environment
from rspo.core.errors import InputError


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A node with a folder for temporary files, and none of the variables set."""
    set_here = environment.VLLM | environment.local_caches()
    kept = {name: value for name, value in os.environ.items() if name not in set_here}
    monkeypatch.setattr(os, "environ", kept)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_caches_are_in_a_folder_for_temporary_files_that_only_this_user_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.environ["TRITON_CACHE_DIR"] = "elsewhere"
    environment.set_environment()
    assert os.environ["TRITON_CACHE_DIR"] == "elsewhere"  # placed by the user
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    others = [os.environ[name] for name in ("TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT")]
    assert [Path(other).parent for other in others] == [folder, folder]
    assert others[0] != others[1]
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    another = tmp_path / "rspo-4711-caches"
    another.symlink_to(folder)
    with pytest.raises(InputError, match=f"^{another} is another user's; set TMPDIR .*own$"):
        environment.set_environment()


_RUNNERS = """
import json, os, sys
os.environ |= json.loads(sys.argv[1])
import transformers, vllm.config.vllm as config
from vllm.engine.arg_utils import EngineArgs

config.HAS_TRITON = True  # as on a GPU
sizes = dict(vocab_size=256, hidden_size=64, intermediate_size=64, num_hidden_layers=1,
             num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=512)
found = {}
for name in ("Llama", "Qwen2"):
    folder = f"{sys.argv[2]}/{name}"
    model = getattr(transformers, f"{name}Config")(**sizes, architectures=[f"{name}ForCausalLM"])
    model.save_pretrained(folder)
    engine = EngineArgs(model=folder, skip_tokenizer_init=True).create_engine_config()
    found[name] = engine.use_v2_model_runner
print(json.dumps(found))
"""


@pytest.mark.long
@pytest.mark.parametrize("variables", [{}, environment.VLLM], ids=["default", "set here"])
def test_both_architectures_get_the_first_model_runner(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    """By default, a Llama gets the second one, in vLLM 0.24.0 unlike a Qwen2."""
    words = [sys.executable, "-c", _RUNNERS, json.dumps(variables), str(tmp_path)]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("VLLM_")}
    done = subprocess.run(words, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    second = json.loads(done.stdout.splitlines()[-1])
    assert second["Llama"] is not bool(variables)
    if variables:
        assert not any(second.values())
