"""Responses from vLLM, in a separate process because vLLM changes PyTorch's global state.

Reads a model folder, questions, a block, sampling settings and an output path as JSON from standard
input; writes a list of responses for each of the settings.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from rspo.config.schema import Sampling
from rspo.policies.responses import Block, Question
from rspo.policies.tokenizer import ChatTokenizer
from rspo.policies.vllm_sampler import VllmSampler

if __name__ == "__main__":
    request = json.load(sys.stdin)
    folder = Path(request["folder"])
    questions = [Question(**question) for question in request["questions"]]
    block = Block(**request["block"])
    samplings = [Sampling(**sampling) for sampling in request["samplings"]]
    sampler = VllmSampler(folder, ChatTokenizer(folder), samplings[0], log_probs=True)
    drawn = []
    for sampling in samplings:
        sampler.sampling = sampling
        batches = sampler.batches(questions, block)
        responses = [row for batch in batches for row in sampler.draw(questions, batch, block)]
        drawn.append([asdict(response) for response in responses])
    Path(request["output"]).write_text(json.dumps(drawn))
