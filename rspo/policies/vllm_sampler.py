"""`sampler: vllm`: samples from any Hugging Face folder, on a GPU or on a CPU.

vLLM runs in this process, so no other process remains if this one is killed. Which requests are
computed together depends on the requests alone, not on their arrival times.

The responses of a batch share one stream of random numbers, as in the torch sampler: with a seed
per response, vLLM would call one generator per response for every token. At the start of each
batch, the stream is seeded and the prefix cache emptied, so a resumed run computes the batch in the
same way.
docs/sampling.md says when two runs give the same responses.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rspo.config.schema import Sampling
from rspo.core.environment import set_environment
from rspo.core.errors import InputError
from rspo.core.gpus import require_vllm_on_gpus
from rspo.core.seeds import seed_of
from rspo.policies.published import require_context
from rspo.policies.responses import Block, Question
from rspo.policies.tokenizer import ChatTokenizer

# A killed job loses at most this many responses. A GPU computes far fewer at the same time.
RESPONSES_PER_BATCH = 4096
# On a CPU, vLLM's cache takes nearly all memory by default. This is enough for two requests of
# 4,096 tokens to a 7B model in float32, and for thousands of requests to a tiny model.
CPU_CACHE_BYTES = 2**30

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # vLLM runs in this process
    "VLLM_LOGGING_LEVEL": "CRITICAL",  # errors are raised; vLLM would also log pages of its state
    "HF_HUB_OFFLINE": "1",  # policies are local folders
}


class VllmSampler:
    """A policy in vLLM, on one GPU if vLLM was built for GPUs, otherwise on the CPU."""

    def __init__(self, folder: Path, tokenizer: ChatTokenizer, sampling: Sampling) -> None:
        config = require_context(folder, sampling)
        self.ends = tokenizer.ends
        self.sampling = sampling
        set_environment()
        os.environ.update(ENVIRONMENT)
        try:
            import vllm
            from vllm.platforms import current_platform
        except ImportError as error:
            raise InputError(
                "sampler = 'vllm' needs vLLM: `make setup-verl`, with GPUs `make setup-gpu` "
                f"({error})"
            ) from None
        require_vllm_on_gpus()
        on_cpu = current_platform.is_cpu()
        self.gpus = 0 if on_cpu else 1
        options = self._cpu_options() if on_cpu else {}
        try:
            self.llm: Any = vllm.LLM(
                str(folder.resolve()),
                skip_tokenizer_init=True,  # token ids in, token ids out
                generation_config="vllm",  # not the model's own temperature and top_p
                # "auto" would load a float32 model in half precision.
                dtype=config.dtype or "auto",
                max_model_len=sampling.max_prompt_tokens + sampling.max_response_tokens,
                logprobs_mode="processed_logprobs",  # after temperature and top_p
                **options,
            )
        except Exception as error:  # vLLM raises errors of several packages
            reason = " ".join(str(error).split())
            raise InputError(f"{folder}: vLLM cannot load it: {reason}") from error

    def _cpu_options(self) -> dict[str, Any]:
        """Arguments of `vllm.LLM` for CPUs."""
        return {
            "enforce_eager": True,  # do not compile the model
            "kv_cache_memory_bytes": CPU_CACHE_BYTES,
            # Prompts share whole blocks only, and vLLM's blocks of 128 tokens on a CPU are longer
            # than many prompts. With 32, 24 prompts of 126 tokens with 8 responses each take a
            # third of the time.
            "block_size": 32,
        }

    def batches(self, questions: Sequence[Question], block: Block) -> list[list[int]]:
        """Batches of consecutive questions, with prompts of any lengths.

        A batch has at most RESPONSES_PER_BATCH responses, or one question.
        """
        size = max(1, RESPONSES_PER_BATCH // block.size)
        indices = list(range(len(questions)))
        return [indices[first : first + size] for first in range(0, len(indices), size)]

    def draw(
        self, questions: Sequence[Question], batch: list[int], block: Block
    ) -> tuple[list[list[int]], int]:
        """Sample with one stream of random numbers for the batch.

        Returns: the token ids of each response, with the responses to one question together; and
            the seed.
        """
        from transformers import set_seed
        from vllm import SamplingParams

        chosen = [questions[row] for row in batch]
        parameters = [
            SamplingParams(
                n=block.size,
                temperature=self.sampling.temperature,
                top_p=self.sampling.top_p,
                max_tokens=question.max_tokens,
                stop_token_ids=list(self.ends),
                detokenize=False,
            )
            for question in chosen
        ]
        prompts = [{"prompt_token_ids": question.prompt} for question in chosen]
        # Without SamplingParams.seed, vLLM uses the generators of this process.
        seed = seed_of(*block.stream, chosen[0].problem, block.number) % 2**32  # NumPy's limit
        set_seed(seed)
        self.llm.reset_prefix_cache()
        results = self.llm.generate(prompts, parameters, use_tqdm=False)
        outputs = [output for result in results for output in result.outputs]
        for output in outputs:
            if output.finish_reason not in ("stop", "length"):
                raise InputError(f"vLLM did not finish a response: {output.finish_reason}")
        return [list(output.token_ids) for output in outputs], seed
