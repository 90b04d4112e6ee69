"""Tokens per second of a step of the local engine, at the shape of SmolLM2-135M.

The weights are random, so nothing is downloaded. Every response has a weight, and hardly two are
equal, so an update leaves nothing out: a training that leaves out responses of weight 0 is faster.
Whether bfloat16 is faster than float32 depends on the processor.
"""

import time

import torch

from benchmarks import Row, readable
from rspo.policies.device import Place, cpu_dtype
from rspo.policies.qwen2 import ModelConfig, Qwen2, padded_on_the_left
from rspo.policies.sampler import Responses, sample
from rspo.training.local import Rollout, backward

# Of SmolLM2-135M's config.json; a context of 256 tokens is enough here.
SHAPE = ModelConfig(
    vocab_size=49152,
    hidden_size=576,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    intermediate_size=1536,
    max_position_embeddings=256,
    rms_norm_eps=1e-5,
    rope_theta=100000.0,
    bias=False,
)
PROMPTS = 16
N = 16
PROMPT_TOKENS = range(14, 21)  # lengths of prompts, in turn
RESPONSE_TOKENS = 12
END = 0  # random weights choose it once in 49,152 tokens, so responses have the maximum length


def run() -> list[Row]:
    """The speed of sampling and of the update in both data types, and the ratio of whole steps."""
    model = Qwen2(SHAPE)
    model.initialise(0.02, torch.Generator().manual_seed(0))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    rows = []
    steps = {}
    for dtype in (torch.float32, torch.bfloat16):
        Place(torch.device("cpu"), dtype).put(model)
        _sample(model)  # not timed: the first call also pays for caches
        started = time.process_time()
        responses = _sample(model)
        sampled = time.process_time()
        _update(model, responses)
        updated = time.process_time()
        tokens = int(responses.lengths.sum())
        name = str(dtype).removeprefix("torch.")
        rows.append(Row(f"{name}: sample", f"{tokens / (sampled - started):,.0f} tokens/s"))
        rows.append(Row(f"{name}: update", f"{tokens / (updated - sampled):,.0f} tokens/s"))
        steps[dtype] = updated - started
        what = f"{name}: a step of {PROMPTS} prompts x {N} responses of {RESPONSE_TOKENS} tokens"
        rows.append(Row(what, readable(steps[dtype])))
    ratio = steps[torch.float32] / steps[torch.bfloat16]
    chosen = str(cpu_dtype()).removeprefix("torch.")
    rows.append(Row(f"float32 / bfloat16; local.dtype = auto is {chosen} here", f"{ratio:.2f}"))
    return rows


def _prompts() -> list[list[int]]:
    """Random prompts of different lengths."""
    generator = torch.Generator().manual_seed(1)
    lengths = [PROMPT_TOKENS[index % len(PROMPT_TOKENS)] for index in range(PROMPTS)]
    return [
        torch.randint(1, SHAPE.vocab_size, (length,), generator=generator).tolist()
        for length in lengths
    ]


def _sample(model: Qwen2) -> Responses:
    generator = torch.Generator().manual_seed(2)
    limit = RESPONSE_TOKENS
    return sample(model, _prompts(), N, max_tokens=limit, end=END, pad=END, generator=generator)


def _update(model: Qwen2, responses: Responses) -> None:
    """The gradient of a step in which every response has a weight."""
    tokens, padding = padded_on_the_left(_prompts(), END, model.device)
    weights = torch.ones(PROMPTS, N)
    rollout = Rollout(tokens, responses, weights, padding=padding)
    backward(model, rollout, torch.arange(PROMPTS), RESPONSE_TOKENS, 0.2, 1.0)
