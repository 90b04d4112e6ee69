"""Samples of vLLM with the log-probabilities of their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rspo.config.schema import Sampling
from rspo.policies.responses import Block, Drawn, Question
from rspo.policies.tokenizer import ChatTokenizer
from rspo.policies.vllm_sampler import VllmSampler


@dataclass(frozen=True)
class Logged(Drawn):
    """A response with the log-probabilities of its tokens under the sampling distribution."""

    seed: int


class LoggingSampler(VllmSampler):
    """The sampler of evaluation, which also asks vLLM for log-probabilities."""

    outputs: list[Any]  # of the last call

    def __init__(self, folder: Path, tokenizer: ChatTokenizer, sampling: Sampling) -> None:
        super().__init__(folder, tokenizer, sampling)
        generate = self.llm.generate

        def with_log_probs(prompts: list[Any], parameters: list[Any], **options: Any) -> Any:
            for each in parameters:
                each.logprobs = 0  # of the sampled token only
            results = generate(prompts, parameters, **options)
            self.outputs = [output for result in results for output in result.outputs]
            return results

        self.llm.generate = with_log_probs

    def logged(self, questions: Sequence[Question], batch: list[int], block: Block) -> list[Logged]:
        """The responses of `draw`."""
        responses, seed = self.draw(questions, batch, block)
        result = []
        for tokens, output in zip(responses, self.outputs, strict=True):
            pairs = zip(tokens, output.logprobs, strict=True)
            result.append(Logged(tokens, [entry[token].logprob for token, entry in pairs], seed))
        return result
