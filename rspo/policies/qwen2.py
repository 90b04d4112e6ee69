"""Qwen2 in one file, for models that fit one CPU or GPU: the forward pass that training and the
key-value-cache sampler share, and a Hugging Face folder in and out.

Left out against transformers: dropout, sliding windows, rope scaling, attention back-ends. Query,
key and value are one product, and so are the two halves of the gate: at hidden size 64 the number
of operations costs more than their size. A test holds the logits against transformers' Qwen2.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as safetensors_bytes
from torch import Tensor, nn

from rspo.core.errors import InputError

KeyValue = tuple[Tensor, Tensor]  # each (B, key-value heads, T, head size)
Attend = Callable[
    [Tensor, Tensor, Tensor], Tensor
]  # query, key, value -> mixed, (B, heads, T, size)


@dataclass(frozen=True)
class Shape:
    """The numbers of a Hugging Face Qwen2 config that decide the forward pass."""

    vocabulary: int
    hidden_size: int
    layers: int
    heads: int
    key_value_heads: int
    feed_forward: int
    context: int
    rope_theta: float = 10000.0
    rms_epsilon: float = 1e-6
    tied: bool = True

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.heads


class Layer(nn.Module):
    """One pre-norm decoder layer: attention, then a gated feed-forward."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        d, size = shape.hidden_size, shape.head_size
        self.attention_norm = nn.Parameter(torch.ones(d))
        self.query_key_value = nn.Linear(d, (shape.heads + 2 * shape.key_value_heads) * size)
        self.attention_out = nn.Linear(shape.heads * size, d, bias=False)
        self.feed_forward_norm = nn.Parameter(torch.ones(d))
        self.gate_up = nn.Linear(d, 2 * shape.feed_forward, bias=False)
        self.down = nn.Linear(shape.feed_forward, d, bias=False)

    def forward(self, x: Tensor, rotation: KeyValue, attend: Attend) -> Tensor:
        """x (B, T, d) -> x (B, T, d)."""
        shape = self.shape
        heads, size = shape.heads, shape.head_size
        batch, length, _ = x.shape
        normed = F.rms_norm(x, (shape.hidden_size,), self.attention_norm, shape.rms_epsilon)
        qkv = self.query_key_value(normed).view(batch, length, -1, size).transpose(1, 2)
        # One rotation for queries and keys together: they are neighbours in the product.
        query_key = rotate(qkv[:, : heads + shape.key_value_heads], rotation)
        mixed = attend(
            query_key[:, :heads], query_key[:, heads:], qkv[:, heads + shape.key_value_heads :]
        )
        x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, length, -1))
        return x + self.feed_forward(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        shape = self.shape
        normed = F.rms_norm(x, (shape.hidden_size,), self.feed_forward_norm, shape.rms_epsilon)
        gate, up = self.gate_up(normed).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


def rotate(x: Tensor, rotation: KeyValue) -> Tensor:
    """Rotary position embedding of x (..., T, head size) by (cos, sin) of the same last axes."""
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Qwen2(nn.Module):
    """The decoder: `forward` gives hidden states, `logits` turns them into scores."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.final_norm = nn.Parameter(torch.ones(shape.hidden_size))
        if not shape.tied:
            self.head = nn.Linear(shape.hidden_size, shape.vocabulary, bias=False)
        half = torch.arange(0, shape.head_size, 2, dtype=torch.float32) / shape.head_size
        angles = torch.arange(shape.context)[:, None] * shape.rope_theta**-half  # (context, size/2)
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def initialise(self, standard_deviation: float, generator: torch.Generator) -> None:
        """Random start: normal weights, zero biases, unit norms."""
        for name, parameter in self.named_parameters():
            if name.endswith("norm"):
                nn.init.ones_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=standard_deviation, generator=generator)

    def forward(self, tokens: Tensor, memory: "Memory") -> Tensor:
        """Hidden states of tokens that follow what `memory` holds; their keys and values join it.

        Args:
            tokens: (B, T) ids; all rows are equally long, padding stands at the end only.

        Returns: (B, T, hidden), after the last norm.
        """
        start, length = memory.length, tokens.shape[1]
        rotation = (self.cos[start : start + length], self.sin[start : start + length])
        x = self.embedding(tokens)
        for index, layer in enumerate(self.layers):
            x = layer(x, rotation, partial(memory.attend, index))
        memory.length = start + length
        return F.rms_norm(x, (self.shape.hidden_size,), self.final_norm, self.shape.rms_epsilon)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores (..., vocabulary) of the next token."""
        return F.linear(hidden, self.embedding.weight if self.shape.tied else self.head.weight)


class Memory:
    """Keys and values so far, for whole sequences: differentiable, grows by joining."""

    def __init__(self) -> None:
        self.length = 0
        self.pairs: list[KeyValue] = []

    def select(self, rows: Tensor) -> "Memory":
        """The memory of some rows, in their order: a prompt's for each of its responses."""
        chosen = Memory()
        chosen.length = self.length
        chosen.pairs = [(key[rows], value[rows]) for key, value in self.pairs]
        return chosen

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if layer < len(self.pairs):
            key = torch.cat((self.pairs[layer][0], key), dim=2)
            value = torch.cat((self.pairs[layer][1], value), dim=2)
            self.pairs[layer] = (key, value)
        else:
            self.pairs.append((key, value))
        length, total = query.shape[2], key.shape[2]
        mask = torch.ones(length, total, dtype=torch.bool, device=query.device)
        mask = mask.tril(diagonal=total - length)
        grouped = query.shape[1] != key.shape[1]
        return F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=grouped)


class DecodingMemory:
    """Keys and values in buffers of fixed size, for one new token a row at a time.

    Keys lie transposed, so that both products are plain batched matrix products over the whole
    buffer with the unfilled end masked: on a CPU three times faster than attention over slices.
    """

    def __init__(self, prompt: Memory, rows: Tensor, capacity: int) -> None:
        """Copy the prompts' memory to `rows` and leave room up to `capacity` tokens."""
        self.length = prompt.length
        self.keys, self.values = [], []
        for key, value in prompt.pairs:
            _, heads, length, size = key.shape
            keys = key.new_zeros(len(rows), heads, size, capacity)
            keys[..., :length] = key[rows].transpose(2, 3)
            values = value.new_zeros(len(rows), heads, capacity, size)
            values[:, :, :length] = value[rows]
            self.keys.append(keys)
            self.values.append(values)
        self.mask = self.keys[0].new_full((capacity,), -torch.inf)
        self.mask[: self.length] = 0

    def keep(self, rows: Tensor) -> None:
        """Forget all other rows."""
        self.keys = [keys[rows] for keys in self.keys]
        self.values = [values[rows] for values in self.values]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        keys, values = self.keys[layer], self.values[layer]
        keys[..., self.length] = key[:, :, 0]
        values[:, :, self.length] = value[:, :, 0]
        self.mask[self.length] = 0
        batch, heads, size, _ = keys.shape
        # Below 13 or so, products this thin leave the fast path of the matrix library.
        filled = max(self.length + 1, 16)
        # (B * key-value heads, queries that share them, size)
        query = query.reshape(batch * heads, -1, size) * size**-0.5
        scores = torch.bmm(query, keys.flatten(0, 1)[..., :filled]) + self.mask[:filled]
        mixed = torch.bmm(scores.softmax(dim=-1), values.flatten(0, 1)[:, :filled])
        return mixed.view(batch, -1, 1, size)


def response_logits(model: Qwen2, prompts: Tensor, prompt_of: Tensor, responses: Tensor) -> Tensor:
    """Logits of every token of every response, each prompt read once for all its responses.

    Args:
        prompts: (P, L) ids.
        prompt_of: (B,) row of `prompts` that each response answers.
        responses: (B, T) ids, padded at the end.

    Returns: (B, T, vocabulary); position t scores responses[:, t]. Padding gets scores too.
    """
    memory = Memory()
    hidden = model(prompts, memory)[prompt_of, -1:]
    if responses.shape[1] > 1:
        later = model(responses[:, :-1], memory.select(prompt_of))
        hidden = torch.cat((hidden, later), dim=1)
    return model.logits(hidden)


# --- Hugging Face folders ------------------------------------------------------------------------

_CONFIG_KEYS = {
    "vocabulary": "vocab_size",
    "hidden_size": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "key_value_heads": "num_key_value_heads",
    "feed_forward": "intermediate_size",
    "context": "max_position_embeddings",
    "rms_epsilon": "rms_norm_eps",
    "tied": "tie_word_embeddings",
}


def save(model: Qwen2, folder: Path, special_tokens: dict[str, int]) -> None:
    """Write config.json and model.safetensors as transformers, vLLM and verl read them.

    Args:
        special_tokens: ids for the config, such as {"eos_token_id": 1}.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shape = model.shape
    config = {name: getattr(shape, field) for field, name in _CONFIG_KEYS.items()}
    config |= {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "dtype": "float32",
        "hidden_act": "silu",
        "rope_theta": shape.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.rope_theta},
    }
    (folder / "config.json").write_text(json.dumps(config | special_tokens, indent=1) + "\n")
    weights = safetensors_bytes(to_hub(model), metadata={"format": "pt"})
    (folder / "model.safetensors").write_bytes(weights)


def load(folder: Path) -> Qwen2:
    """Read a Qwen2 folder, in float32.

    Raises: InputError for a missing or unreadable file, or another architecture.
    """
    try:
        config = json.loads((folder / "config.json").read_text())
        weights = load_file(folder / "model.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(f"{folder}: not a model folder: {error}") from None
    if config.get("model_type") != "qwen2":
        raise InputError(
            f"{folder}/config.json: model_type = {config.get('model_type')!r}; allowed: 'qwen2'"
        )
    rope = config.get("rope_parameters") or config
    model = Qwen2(
        Shape(
            **{field: config[name] for field, name in _CONFIG_KEYS.items()},
            rope_theta=rope["rope_theta"],
        )
    )
    load_hub_weights(model, weights)
    return model


def load_hub_weights(model: Qwen2, weights: dict[str, Tensor]) -> None:
    """Give a model weights under transformers' names."""
    model.load_state_dict(_from_hub(weights, model.shape))


def to_hub(model: Qwen2) -> dict[str, Tensor]:
    """Weights under transformers' names, the joined products taken apart."""
    shape = model.shape
    sizes = [shape.heads, shape.key_value_heads, shape.key_value_heads]
    named = {
        "model.embed_tokens.weight": model.embedding.weight,
        "model.norm.weight": model.final_norm,
    }
    if not shape.tied:
        named["lm_head.weight"] = model.head.weight
    for index, layer in enumerate(cast("list[Layer]", model.layers)):
        prefix = f"model.layers.{index}."
        named[prefix + "input_layernorm.weight"] = layer.attention_norm
        named[prefix + "post_attention_layernorm.weight"] = layer.feed_forward_norm
        named[prefix + "self_attn.o_proj.weight"] = layer.attention_out.weight
        named[prefix + "mlp.down_proj.weight"] = layer.down.weight
        for kind, parameter in layer.query_key_value.named_parameters():
            parts = parameter.split([size * shape.head_size for size in sizes])
            for letter, part in zip("qkv", parts, strict=True):
                named[f"{prefix}self_attn.{letter}_proj.{kind}"] = part
        for half, part in zip(("gate", "up"), layer.gate_up.weight.chunk(2), strict=True):
            named[f"{prefix}mlp.{half}_proj.weight"] = part
    return {name: tensor.detach().to("cpu").contiguous() for name, tensor in named.items()}


def _from_hub(weights: dict[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """The reverse of `to_hub`."""
    state = {
        "embedding.weight": weights["model.embed_tokens.weight"],
        "final_norm": weights["model.norm.weight"],
    }
    if not shape.tied:
        state["head.weight"] = weights["lm_head.weight"]
    for index in range(shape.layers):
        prefix, own = f"model.layers.{index}.", f"layers.{index}."
        state[own + "attention_norm"] = weights[prefix + "input_layernorm.weight"]
        state[own + "feed_forward_norm"] = weights[prefix + "post_attention_layernorm.weight"]
        state[own + "attention_out.weight"] = weights[prefix + "self_attn.o_proj.weight"]
        state[own + "down.weight"] = weights[prefix + "mlp.down_proj.weight"]
        for kind in ("weight", "bias"):
            parts = [weights[f"{prefix}self_attn.{letter}_proj.{kind}"] for letter in "qkv"]
            state[f"{own}query_key_value.{kind}"] = torch.cat(parts)
        halves = [weights[f"{prefix}mlp.{half}_proj.weight"] for half in ("gate", "up")]
        state[own + "gate_up.weight"] = torch.cat(halves)
    return {name: tensor.float() for name, tensor in state.items()}
