"""The local engine with the random numbers of the verl engine's servers on CPUs.

With them, both engines sample the same responses, as long as their weights are equal.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from rspo.core.seeds import generator_of
from rspo.policies.sampler import Responses, sample
from rspo.training import local_engine
from rspo.training.local import Trainer
from rspo.training.verl.cpu_server import ROW_MULTIPLE


class WithServersNumbers(Trainer):
    """A trainer that samples as `rspo.training.verl.cpu_server` does."""

    def sample(self, prompts: Sequence[Sequence[int]], n: int, *seed: str | int) -> Responses:
        names = self.requests(len(prompts), n, *seed)
        return sample(
            self.model,
            [prompt for prompt in prompts for _ in range(n)],
            1,
            max_tokens=self.config.sampling.max_response_tokens,
            end=self.tokenizer.end,
            pad=self.tokenizer.pad,
            generator=[generator_of(self.cell.seed, "verl", name) for name in names],
            temperature=self.config.sampling.temperature,
            multiple=ROW_MULTIPLE,
        )

    def requests(
        self, prompts: int, n: int, purpose: str | int, step: int, first: int = 0
    ) -> list[str]:
        """Names of the requests for n responses to each prompt; steps count from 0.

        A training prompt is named by its position in the whole training.
        """
        prefix = f"{step + 1}-validation-" if purpose == "validation" else f"{step + 1}-"
        if purpose == "sampling":
            first = step * prompts
        return [f"{prefix}{first + row}-{number}" for row in range(prompts) for number in range(n)]


@contextmanager
def servers_numbers() -> Iterator[None]:
    """In this block, the local engine trains with the servers' random numbers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_engine, "Trainer", WithServersNumbers)
        yield
