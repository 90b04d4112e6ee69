"""The environment variables of every process that uses vLLM or compiles kernels."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from rspo.core.errors import InputError

VLLM = {
    # FlashInfer's sampler needs nvcc. vLLM's own serves requests with seeds, as the judge's, and
    # with log-probabilities after temperature and top-p, as the policy's, anyway.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    # By default, vLLM 0.24 has other model runners for a Llama, as in the checks, than for a Qwen2.
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    # Processes would share the cache of compiled code. It is not written atomically, so one can
    # read an incomplete file of another. verl disables it as well.
    "VLLM_DISABLE_COMPILE_CACHE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
# Caches of compiled kernels, and of what vLLM finds out about a model. In the home folder, which
# nodes share, processes would write the same files, and some fail with "Stale file handle".
_CACHES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "VLLM_CACHE_ROOT": "vllm",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "CUDA_CACHE_PATH": "cuda",
}


def local_caches() -> dict[str, str]:
    """A folder of this user on this node for each cache. A variable that is set keeps its value."""
    folder = Path(tempfile.gettempdir()) / f"rspo-{os.getuid()}-caches"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.lstat().st_uid != os.getuid():
        raise InputError(f"{folder} is another user's; set TMPDIR to a folder of your own")
    return {name: os.environ.get(name, str(folder / below)) for name, below in _CACHES.items()}


def set_environment() -> None:
    """Set the variables for this process and those that it starts, before they import vLLM."""
    os.environ.update(VLLM | local_caches())
