"""`sampler: vllm`: the responses of any Hugging Face folder, on a GPU or on a CPU.

vLLM runs inside this process: nothing is left behind when it is killed, and which requests are
computed together follows from the requests alone, not from when they arrive. Every response has a
seed of its own, made of the problem and its number among the N, so neither blocks nor batches
decide what is drawn. A batch starts with an empty prefix cache: one that is drawn after a resume
is computed as it would have been before.

On one machine the same settings give the same responses; on another kind of GPU rounding differs
in the last digit, and a response that meets such a digit goes another way.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rspo.config.schema import Sampling
from rspo.core.errors import InputError
from rspo.core.seeds import seed_of
from rspo.policies.responses import Block, Question, Response
from rspo.policies.tokenizer import ChatTokenizer

# Drawn together, and so lost when a job is killed; many times what one GPU computes at a time.
RESPONSES_PER_BATCH = 4096
# vLLM on a CPU takes nearly all memory for its cache unless it is told how much. Two requests of
# 4,096 tokens for a model of 7B in float32, thousands for a tiny one.
CPU_CACHE_BYTES = 2**30

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "CRITICAL",  # what goes wrong is raised, without pages of its state
    "HF_HUB_OFFLINE": "1",  # a policy is a folder: there is nothing to ask the hub for
}


class VllmSampler:
    """A policy in vLLM, on one GPU if vLLM is built for one."""

    def __init__(
        self,
        folder: Path,
        tokenizer: ChatTokenizer,
        sampling: Sampling,
        *,
        log_probs: bool = False,
    ) -> None:
        """
        Args:
            log_probs: give those of the sampled tokens; evaluation has no use for them.

        Raises: InputError without vLLM, or for a folder that is no model, has less context than
            `sampling` asks for, or that vLLM cannot load.
        """
        config = _read_config(folder)
        self.context = sampling.max_prompt_tokens + sampling.max_response_tokens
        most = config.get("max_position_embeddings", self.context)
        if most < self.context:
            raise InputError(
                f"{folder}/config.json: max_position_embeddings = {most}, fewer than "
                f"sampling.max_prompt_tokens + sampling.max_response_tokens = {self.context}"
            )
        self.end = tokenizer.end
        self.sampling = sampling
        self.log_probs = log_probs
        self.llm, self.gpus = self._load(folder, config)

    def _load(self, folder: Path, config: dict[str, Any]) -> tuple[Any, int]:
        """The engine, and how many GPUs it has."""
        os.environ.update(_ENVIRONMENT)
        try:
            import vllm
            from vllm.platforms import current_platform
        except ImportError as error:
            raise InputError(f"sampler = 'vllm' needs vLLM: `make setup-verl` ({error})") from None
        on_cpu = current_platform.is_cpu()
        try:
            llm = vllm.LLM(
                str(folder.resolve()),
                skip_tokenizer_init=True,  # token ids in, token ids out
                generation_config="vllm",  # not the model's own idea of temperature and top_p
                # "auto" would halve the precision of a float32 model.
                dtype=config.get("dtype") or config.get("torch_dtype") or "auto",
                max_model_len=self.context,
                logprobs_mode="processed_logprobs",  # of what is drawn from: temperature, top_p
                **(self._on_cpu() if on_cpu else {}),
            )
        except Exception as error:  # it lets errors of several packages through
            reason = " ".join(str(error).split())
            raise InputError(f"{folder}: vLLM cannot load it: {reason}") from error
        return llm, 0 if on_cpu else 1

    def _on_cpu(self) -> dict[str, Any]:
        return {
            "enforce_eager": True,
            "kv_cache_memory_bytes": CPU_CACHE_BYTES,
            # A prompt that is read in two parts takes back the first one's random number, which
            # PyTorch's generators on a CPU cannot ("CPU Generator does not use offset").
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(4096, self.context),
        }

    def batches(self, questions: Sequence[Question], block: Block) -> list[list[int]]:
        """Consecutive questions with RESPONSES_PER_BATCH responses, whatever their lengths."""
        size = max(1, RESPONSES_PER_BATCH // block.size)
        places = list(range(len(questions)))
        return [places[first : first + size] for first in range(0, len(places), size)]

    def draw(self, questions: Sequence[Question], batch: list[int], block: Block) -> list[Response]:
        """A seed a response: with one for all, they would share their random numbers."""
        from vllm import SamplingParams

        asked = [(questions[place], index) for place in batch for index in block.indices]
        seeds = [seed_of(*block.stream, question.problem, index) for question, index in asked]
        parameters = [
            SamplingParams(
                seed=seed,
                temperature=self.sampling.temperature,
                top_p=self.sampling.top_p,
                max_tokens=question.max_tokens,
                stop_token_ids=[self.end],
                detokenize=False,
                logprobs=0 if self.log_probs else None,
            )
            for (question, _), seed in zip(asked, seeds, strict=True)
        ]
        prompts = [{"prompt_token_ids": question.prompt} for question, _ in asked]
        self.llm.reset_prefix_cache()
        answers = self.llm.generate(prompts, parameters, use_tqdm=False)
        return [
            self._response(answer.outputs[0], seed)
            for answer, seed in zip(answers, seeds, strict=True)
        ]

    def _response(self, output: Any, seed: int) -> Response:
        if output.finish_reason not in ("stop", "length"):
            raise InputError(f"vLLM gave up on a response: {output.finish_reason}")
        tokens = list(output.token_ids)
        log_probs = [
            entry[token].logprob
            for token, entry in zip(tokens, output.logprobs or [], strict=self.log_probs)
        ]
        # Not by the finish reason: an end token at the limit counts as "length" there.
        return Response(tokens, tokens[-1] == self.end, seed, log_probs)


def _read_config(folder: Path) -> dict[str, Any]:
    """Raises: InputError if the folder is no model; vLLM would look for it on the hub."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: not a model folder: {error}") from None
    return config
