"""The weights that a vLLM worker writes, in a separate process because vLLM changes global state.

    python -m tests.support.vllm_weights FOLDER FILE

On a CPU, vLLM repacks the weights of linear layers when it has loaded them, and empties the
originals; a GPU keeps them. Here they are kept too.
"""

import os
import sys
from pathlib import Path

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", HF_HUB_OFFLINE="1")

import vllm
from vllm.model_executor.layers import utils

from tests.gpu.weights import save_of_vllm


def main(folder: str, file: str) -> None:
    repack = utils.dispatch_cpu_unquantized_gemm
    utils.dispatch_cpu_unquantized_gemm = lambda layer, remove_weight: repack(layer, False)
    llm = vllm.LLM(
        folder,
        dtype="bfloat16",
        enforce_eager=True,
        kv_cache_memory_bytes=2**28,
        max_model_len=256,
        skip_tokenizer_init=True,
    )
    llm.collective_rpc(save_of_vllm, args=(Path(file),))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
