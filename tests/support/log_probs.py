"""Samples of vLLM with the log-probabilities of their tokens."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rspo.config.schema import Sampling
from rspo.policies.responses import Response
from rspo.policies.tokenizer import ChatTokenizer
from rspo.policies.vllm_sampler import VllmSampler


@dataclass(frozen=True)
class Logged(Response):
    """A response with the log-probabilities of its tokens under the sampling distribution."""

    log_probs: list[float]


class LoggingSampler(VllmSampler):
    """The sampler of evaluation, which also asks vLLM for log-probabilities."""

    def __init__(self, folder: Path, tokenizer: ChatTokenizer, sampling: Sampling) -> None:
        super().__init__(folder, tokenizer, sampling)
        generate = self.llm.generate

        def with_log_probs(prompts: list[Any], parameters: list[Any], **options: Any) -> Any:
            for each in parameters:
                each.logprobs = 0  # of the sampled token only
            return generate(prompts, parameters, **options)

        self.llm.generate = with_log_probs

    def _response(self, output: Any, seed: int) -> Logged:
        response = super()._response(output, seed)
        pairs = zip(response.tokens, output.logprobs, strict=True)
        log_probs = [entry[token].logprob for token, entry in pairs]
        return Logged(**asdict(response), log_probs=log_probs)
