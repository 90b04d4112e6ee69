"""Responses from vLLM, in a process of its own: vLLM changes PyTorch for the whole process.

Reads folder, questions, block and some settings of sampling as JSON; prints for each of those the
responses.
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
    asked = json.load(sys.stdin)
    folder = Path(asked["folder"])
    questions = [Question(**question) for question in asked["questions"]]
    block = Block(**asked["block"])
    samplings = [Sampling(**sampling) for sampling in asked["samplings"]]
    sampler = VllmSampler(folder, ChatTokenizer(folder), samplings[0], log_probs=True)
    drawn = []
    for sampling in samplings:
        sampler.sampling = sampling
        batches = sampler.batches(questions, block)
        responses = [row for batch in batches for row in sampler.draw(questions, batch, block)]
        drawn.append([asdict(response) for response in responses])
    Path(asked["output"]).write_text(json.dumps(drawn))
