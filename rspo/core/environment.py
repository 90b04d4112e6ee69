"""The environment variables of every process that uses vLLM or compiles kernels."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from rspo.core.errors import InputError

VLLM = {
    # FlashInfer's sampler needs nvcc. For requests with seeds, such as the judge's, and for
    # log-probabilities after temperature and top-p, such as the policy's, vLLM uses its own anyway.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    # By default, vLLM 0.24 runs a Llama, as in the checks, with another model runner than a Qwen2.
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    # Processes would share the cache of compiled code. vLLM does not write it atomically, so that a
    # process can read an incomplete file of another process. verl disables it as well.
    "VLLM_DISABLE_COMPILE_CACHE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
# Caches of compiled kernels, and of what vLLM finds out about a model. By default they are in the
# home folder, which nodes share: processes write the same files, and some of them fail with "Stale
# file handle".
_CACHES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "VLLM_CACHE_ROOT": "vllm",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "CUDA_CACHE_PATH": "cuda",
}


def local_caches() -> dict[str, str]:
    """The variable of each cache, with a folder of this user on this node.

    A variable that is set keeps its value.

    Raises: InputError if the folder for temporary files has another user's folder of this name.
    """
    folder = Path(tempfile.gettempdir()) / f"rspo-{os.getuid()}-caches"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.lstat().st_uid != os.getuid():
        raise InputError(f"{folder} is another user's; set TMPDIR to a folder of your own")
    return {name: os.environ.get(name, str(folder / below)) for name, below in _CACHES.items()}


def set_environment() -> None:
    """Set the variables for this process and those that it starts, before they import vLLM."""
    os.environ.update(VLLM | local_caches())
