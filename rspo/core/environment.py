"""The environment variables that every process needs before it uses vLLM or compiles kernels."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from rspo.core.errors import InputError

VLLM = {
    # FlashInfer's sampler needs nvcc to compile its kernels. vLLM would use its own sampler in any
    # case for requests with seeds, such as the judge's, and where the log-probabilities include
    # temperature and top-p, such as the policy's.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    # By default, vLLM 0.24 runs a Llama with another model runner than a Qwen2. Checks on small
    # Llama models would then say nothing about the Qwen2 models of the experiments.
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    # Processes share the cache of compiled code, and vLLM does not write it atomically, so that one
    # process can read the incomplete file of another. verl disables the cache as well.
    "VLLM_DISABLE_COMPILE_CACHE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
# The variables that locate caches, and the name of the folder for each: compiled kernels, and what
# vLLM finds out about a model. By default they are in the home folder, which nodes share: processes
# write the same files, and some of them fail with "Stale file handle".
_CACHES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "torchinductor",
    "VLLM_CACHE_ROOT": "vllm",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "CUDA_CACHE_PATH": "cuda",
}


def local_caches() -> dict[str, str]:
    """The variables that locate caches, each with a folder of this user on this node.

    A variable that is already set keeps its value.

    Raises: InputError if another user has created the folder for these caches.
    """
    folder = Path(tempfile.gettempdir()) / f"rspo-{os.getuid()}-caches"
    # /tmp is open to all users. Code from a cache is run, so nobody else may own the folder;
    # `lstat` does not follow a link to a folder of ours.
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.lstat().st_uid != os.getuid():
        raise InputError(f"{folder} is another user's; set TMPDIR to a folder of your own")
    return {name: os.environ.get(name, str(folder / below)) for name, below in _CACHES.items()}


def set_environment() -> None:
    """Set the variables for this process and those that it starts. Call it before vLLM's import."""
    os.environ.update(VLLM | local_caches())
