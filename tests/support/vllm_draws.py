"""Responses from vLLM, in a separate process because vLLM changes PyTorch's global state.

Reads a model folder, questions, a block, sampling settings and an output path as JSON from standard
input. Writes a list of responses for each of the settings; with the first settings also the last
batch again, and the same batch of another block.
"""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rspo.config.schema import Sampling
from rspo.policies import vllm_sampler
from rspo.policies.responses import Block, Question
from rspo.policies.tokenizer import ChatTokenizer
from tests.support.log_probs import LoggingSampler

if __name__ == "__main__":
    request = json.load(sys.stdin)
    folder = Path(request["folder"])
    questions = [Question(**question) for question in request["questions"]]
    block = Block(**request["block"])
    samplings = [Sampling(**sampling) for sampling in request["samplings"]]
    vllm_sampler.RESPONSES_PER_BATCH = 10 * block.size
    sampler = LoggingSampler(folder, ChatTokenizer(folder), samplings[0])
    batches = sampler.batches(questions, block)

    def draw(batches: list[list[int]], block: Block) -> list[dict[str, Any]]:
        return [asdict(row) for batch in batches for row in sampler.logged(questions, batch, block)]

    drawn = []
    for sampling in samplings:
        sampler.sampling = sampling
        drawn.append(draw(batches, block))
    sampler.sampling = samplings[0]
    result = {
        "drawn": drawn,
        "last_batch": draw(batches[-1:], block),
        "other_block": draw(batches[-1:], replace(block, number=block.number + 1)),
    }
    Path(request["output"]).write_text(json.dumps(result))
