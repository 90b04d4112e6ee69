"""Tokens per second of a step of the local engine, at the shapes of two published models.

The weights are random, so nothing is downloaded. Every response has a weight, and hardly two are
equal, so an update leaves nothing out: a training that leaves out responses of weight 0 is faster.
Whether bfloat16 is faster than float32 depends on the processor; the larger model is measured in
the one that `local.dtype = auto` chooses.
"""

import time
from dataclasses import dataclass

import torch

from benchmarks import Row, readable
from rspo.policies.device import Place, cpu_dtype
from rspo.policies.qwen2 import ModelConfig, Qwen2, padded_on_the_left
from rspo.policies.sampler import Responses, sample
from rspo.training.local import Rollout, backward

# Of the models' config.json; a context of 256 tokens is enough here.
SMOLLM2_135M = ModelConfig(
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
QWEN2_5_0_5B = ModelConfig(
    vocab_size=151936,
    hidden_size=896,
    num_hidden_layers=24,
    num_attention_heads=14,
    num_key_value_heads=2,
    intermediate_size=4864,
    max_position_embeddings=256,
    rope_theta=1000000.0,
)
PROMPTS = 16
N = 16
PROMPT_TOKENS = range(14, 21)  # lengths of prompts, in turn
RESPONSE_TOKENS = 12
END = 0  # random weights choose it once in 49,152 tokens, so responses have the maximum length


@dataclass(frozen=True)
class Speed:
    """Processor time of the two parts of a step, in seconds, and the tokens of its responses."""

    sample: float
    update: float
    tokens: int

    @property
    def step(self) -> float:
        return self.sample + self.update

    def rows(self, name: str) -> list[Row]:
        """Lines of the table, whose first column begins with a name."""
        size = f"{PROMPTS} prompts x {N} responses of {RESPONSE_TOKENS} tokens"
        return [
            Row(f"{name}: sample", f"{self.tokens / self.sample:,.0f} tokens/s"),
            Row(f"{name}: gradient", f"{self.tokens / self.update:,.0f} tokens/s"),
            Row(f"{name}: a step of {size}, without the optimizer", readable(self.step)),
        ]


def run() -> list[Row]:
    """The speed of sampling and of the gradient, and what bfloat16 gains."""
    rows = []
    speeds = {}
    model = _model(SMOLLM2_135M)
    for dtype in (torch.float32, torch.bfloat16):
        speeds[dtype] = _measure(model, dtype)
        rows += speeds[dtype].rows(f"SmolLM2-135M, {_name(dtype)}")
    ratio = speeds[torch.float32].step / speeds[torch.bfloat16].step
    chosen = cpu_dtype()
    rows.append(
        Row(f"float32 / bfloat16; local.dtype = auto is {_name(chosen)} here", f"{ratio:.2f}")
    )
    larger = _measure(_model(QWEN2_5_0_5B), chosen)
    rows += larger.rows(f"Qwen2.5-0.5B, {_name(chosen)}")
    return rows


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _model(shape: ModelConfig) -> Qwen2:
    """A model with random weights, and with gradients, which a training keeps between its steps."""
    model = Qwen2(shape)
    model.initialise(0.02, torch.Generator().manual_seed(0))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return model


def _measure(model: Qwen2, dtype: torch.dtype) -> Speed:
    Place(torch.device("cpu"), dtype).put(model)
    _sample(model)  # not timed: the first call also pays for caches
    started = time.process_time()
    responses = _sample(model)
    sampled = time.process_time()
    _update(model, responses)
    updated = time.process_time()
    return Speed(sampled - started, updated - sampled, int(responses.lengths.sum()))


def _prompts(vocabulary: int) -> list[list[int]]:
    """Random prompts of different lengths."""
    generator = torch.Generator().manual_seed(1)
    lengths = [PROMPT_TOKENS[index % len(PROMPT_TOKENS)] for index in range(PROMPTS)]
    return [
        torch.randint(1, vocabulary, (length,), generator=generator).tolist() for length in lengths
    ]


def _sample(model: Qwen2) -> Responses:
    prompts = _prompts(model.config.vocab_size)
    generator = torch.Generator().manual_seed(2)
    limit = RESPONSE_TOKENS
    return sample(model, prompts, N, max_tokens=limit, end=END, pad=END, generator=generator)


def _update(model: Qwen2, responses: Responses) -> None:
    """The gradient of a step in which every response has a weight."""
    prompts = _prompts(model.config.vocab_size)
    tokens, padding = padded_on_the_left(prompts, END, model.device)
    weights = torch.ones(PROMPTS, N)
    rollout = Rollout(tokens, responses, weights, padding=padding)
    backward(model, rollout, torch.arange(PROMPTS), RESPONSE_TOKENS, 0.2, 1.0)
