"""Qwen2 in one file, for models that fit on one CPU or GPU.

The tiny scale uses this model instead of transformers: on one CPU core and with models this small,
sampling from it (`rspo.policies.sampler`) is about 1.7 times as fast as transformers' `generate`
(benchmarks/results.md). Training and the sampler share its forward pass. `save` and `load` write
and read Hugging Face folders.

Unlike transformers, it has no dropout, sliding windows, RoPE scaling or attention back ends. One
matrix product computes query, key and value, and another one both halves of the gated feed-forward,
because at hidden size 64, time depends more on the number of operations than on their size. A test
compares the logits with those of transformers.

Shapes: B sequences of T tokens.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as safetensors_bytes
from torch import Tensor, nn

from rspo.core.errors import InputError

# Keys and values, (B, key-value heads, T, head size) each. The cosines and sines of `rotate` have
# the same type.
KeyValue = tuple[Tensor, Tensor]
# query, key, value -> output, (B, heads, T, head size)
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
LAST = slice(-1, None)  # the last position of a sequence


@dataclass(frozen=True)
class ModelConfig:
    """The keys of a Hugging Face Qwen2 config that decide the forward pass, with the same names."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-6
    tie_word_embeddings: bool = True
    rope_theta: float = 10000.0

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_attention_heads


class Layer(nn.Module):
    """One pre-norm decoder layer: attention, then a gated feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        hidden = config.hidden_size
        size = config.head_size
        heads = config.num_attention_heads
        key_value_heads = config.num_key_value_heads
        self.attention_norm = nn.Parameter(torch.ones(hidden))
        self.query_key_value = nn.Linear(hidden, (heads + 2 * key_value_heads) * size)
        self.attention_out = nn.Linear(heads * size, hidden, bias=False)
        self.feed_forward_norm = nn.Parameter(torch.ones(hidden))
        self.gate_up = nn.Linear(hidden, 2 * config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, hidden, bias=False)

    def forward(
        self, x: Tensor, rotation: KeyValue, attend: Attend, positions: slice = slice(None)
    ) -> Tensor:
        """Compute the output of the layer.

        Args:
            x: (B, T, hidden).
            rotation: cosines and sines of the positions, for `rotate`.
            attend: the attention of this layer, over its cache.
            positions: the positions whose output is returned.

        Returns: (B, T, hidden), or only the given positions.
        """
        config = self.config
        heads = config.num_attention_heads
        queries_and_keys = heads + config.num_key_value_heads
        batch, length, _ = x.shape
        normed = F.rms_norm(x, (config.hidden_size,), self.attention_norm, config.rms_norm_eps)
        projected = self.query_key_value(normed).view(batch, length, -1, config.head_size)
        qkv = projected.transpose(1, 2)
        # Queries and keys are adjacent in the product, so one call rotates both.
        query_key = rotate(qkv[:, :queries_and_keys], rotation)
        query = query_key[:, :heads, positions]
        key = query_key[:, heads:]
        value = qkv[:, queries_and_keys:]
        output = attend(query, key, value)
        x = x[:, positions]
        x = x + self.attention_out(output.transpose(1, 2).reshape(batch, x.shape[1], -1))
        return x + self.feed_forward(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        """Compute what the gated feed-forward adds to x: (B, T, hidden), the shape of x."""
        config = self.config
        normed = F.rms_norm(x, (config.hidden_size,), self.feed_forward_norm, config.rms_norm_eps)
        gate, up = self.gate_up(normed).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


def rotate(x: Tensor, rotation: KeyValue) -> Tensor:
    """Apply the rotary position embedding to x (..., T, head size).

    Args:
        rotation: cosines and sines of the angles, (T, head size) each.
    """
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Qwen2(nn.Module):
    """The decoder: `forward` computes hidden states, `logits` the logits of the next token."""

    cos: Tensor
    sin: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.final_norm = nn.Parameter(torch.ones(config.hidden_size))
        if not config.tie_word_embeddings:
            self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        # Angles of the rotary position embedding: pair i of a head turns by theta^(-2i / head size)
        # per position. `rotate` pairs the two halves of a head, so the angles occur twice.
        half = torch.arange(0, config.head_size, 2, dtype=torch.float32) / config.head_size
        positions = torch.arange(config.max_position_embeddings)
        angles = positions[:, None] * config.rope_theta**-half  # (positions, head size / 2)
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def initialise(self, standard_deviation: float, generator: torch.Generator) -> None:
        """Initialise at random: normal weights, zero biases, unit norms."""
        for name, parameter in self.named_parameters():
            if name.endswith("norm"):
                nn.init.ones_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=standard_deviation, generator=generator)

    def forward(
        self,
        tokens: Tensor,
        cache: "KVCache | StaticKVCache",
        positions: slice = slice(None),
    ) -> Tensor:
        """Compute hidden states of tokens that follow those in the cache.

        This adds the keys and values of the tokens to the cache.

        Args:
            tokens: (B, T) ids; rows are equally long, with padding at the end only.
            positions: the positions to return; the last layer computes only these.

        Returns: (B, T, hidden), or only the given positions, after the last norm.
        """
        start = cache.length
        end = start + tokens.shape[1]
        rotation = (self.cos[start:end], self.sin[start:end])
        x = self.embedding(tokens)
        for index, layer in enumerate(self.layers):
            wanted = positions if index == len(self.layers) - 1 else slice(None)
            x = layer(x, rotation, partial(cache.attend, index), wanted)
        cache.length = end
        config = self.config
        return F.rms_norm(x, (config.hidden_size,), self.final_norm, config.rms_norm_eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """Compute logits (..., vocabulary) of the next token from hidden states (..., hidden)."""
        head = self.embedding if self.config.tie_word_embeddings else self.head
        return F.linear(hidden, head.weight)


class KVCache:
    """Keys and values of whole sequences, differentiable. The cache grows by concatenation."""

    def __init__(self) -> None:
        self.length = 0
        self.layers: list[KeyValue] = []

    def select(self, rows: Tensor) -> "KVCache":
        """A new cache with the given rows, in that order. A row may occur several times.

        With this, each response gets a copy of the row of its prompt.
        """
        selected = KVCache()
        selected.length = self.length
        selected.layers = [(key[rows], value[rows]) for key, value in self.layers]
        return selected

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Add a layer's new keys and values, and attend to all that the cache then has.

        Attention is causal: a query attends to the keys up to its own position.
        """
        if layer < len(self.layers):
            key = torch.cat((self.layers[layer][0], key), dim=2)
            value = torch.cat((self.layers[layer][1], value), dim=2)
            self.layers[layer] = (key, value)
        else:
            self.layers.append((key, value))
        length = query.shape[2]
        total = key.shape[2]
        # The queries are the last `length` of `total` positions.
        mask = torch.ones(length, total, dtype=torch.bool, device=query.device)
        mask = mask.tril(diagonal=total - length)
        grouped = query.shape[1] != key.shape[1]
        return F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=grouped)


class StaticKVCache:
    """Keys and values in buffers of fixed size, for decoding one token per row at a time.

    Keys are stored transposed, so that both products of the attention are plain batched matrix
    products over the buffer. A mask hides the unused end of the buffer. On a CPU this is three
    times as fast as attention over a slice of the used part.
    """

    def __init__(self, prompts: KVCache, rows: Tensor, capacity: int) -> None:
        """Copy the given rows of the prompts' cache into buffers of at least `capacity` tokens."""
        capacity = max(16, _rounded_up(capacity))
        self.length = prompts.length
        self.keys = []
        self.values = []
        for key, value in prompts.layers:
            _, heads, length, size = key.shape
            keys = key.new_zeros(len(rows), heads, size, capacity)
            keys[..., :length] = key[rows].transpose(2, 3)
            values = value.new_zeros(len(rows), heads, capacity, size)
            values[:, :, :length] = value[rows]
            self.keys.append(keys)
            self.values.append(values)
        self.mask = self.keys[0].new_full((capacity,), -torch.inf)
        self.mask[: self.length] = 0

    def select(self, rows: Tensor) -> None:
        """Keep only the given rows of the cache, in that order. A row may occur several times."""
        self.keys = [keys.index_select(0, rows) for keys in self.keys]
        self.values = [values.index_select(0, rows) for values in self.values]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Add a layer's new key and value of each row, and attend to all that the cache then has.

        The shapes are those of `Attend` with T = 1. `Qwen2.forward` increases `length` afterwards,
        when all layers have done this.
        """
        keys = self.keys[layer]
        values = self.values[layer]
        keys[..., self.length] = key[:, :, 0]
        values[:, :, self.length] = value[:, :, 0]
        self.mask[self.length] = 0
        batch, heads, size, _ = keys.shape
        filled = max(16, _rounded_up(self.length + 1))
        # (B * key-value heads, queries per key-value head, size)
        query = query.reshape(batch * heads, -1, size) * size**-0.5
        scores = torch.bmm(query, keys.flatten(0, 1)[..., :filled]) + self.mask[:filled]
        output = torch.bmm(scores.softmax(dim=-1), values.flatten(0, 1)[:, :filled])
        return output.view(batch, -1, 1, size)


def _rounded_up(length: int) -> int:
    """The smallest multiple of 4 that is at least `length`.

    In matrix products of other sizes, the rounding of a row depends on its place in the batch. With
    fewer than about 13 columns, the matrix library is slow, hence the minimum of 16 in
    `StaticKVCache`.
    """
    return -(-length // 4) * 4


def response_logits(model: Qwen2, prompts: Tensor, prompt_of: Tensor, responses: Tensor) -> Tensor:
    """Compute the logits with which each token of each response is predicted.

    Each prompt is computed once for all its responses.

    Args:
        prompts: (P, L) ids.
        prompt_of: (B,) for each response, the row of its prompt in `prompts`.
        responses: (B, T) ids, padded at the end.

    Returns: (B, T, vocabulary). Position t has the logits that predict responses[:, t], even where
        it is padding.
    """
    cache = KVCache()
    # The last token of the prompt predicts the first token of the response. Each token of the
    # response predicts the next one.
    hidden = model(prompts, cache, LAST)[prompt_of]
    if responses.shape[1] > 1:
        later = model(responses[:, :-1], cache.select(prompt_of))
        hidden = torch.cat((hidden, later), dim=1)
    return model.logits(hidden)


def save(model: Qwen2, folder: Path, special_tokens: dict[str, int]) -> None:
    """Write config.json and model.safetensors, for transformers, vLLM and verl.

    Args:
        special_tokens: ids for the config, such as {"eos_token_id": 1}.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = asdict(model.config)
    rope_theta = config.pop("rope_theta")
    config |= {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "dtype": "float32",
        "hidden_act": "silu",
        "rope_theta": rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": rope_theta},
    }
    (folder / "config.json").write_text(json.dumps(config | special_tokens, indent=1) + "\n")
    weights = safetensors_bytes(to_hub(model), metadata={"format": "pt"})
    (folder / "model.safetensors").write_bytes(weights)


def load(folder: Path) -> Qwen2:
    """Read a Qwen2 folder in float32.

    Raises: InputError if it is not a folder of a Qwen2 model.
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
    config["rope_theta"] = rope["rope_theta"]
    settings = {field.name: config[field.name] for field in fields(ModelConfig)}
    model = Qwen2(ModelConfig(**settings))
    load_hub_weights(model, weights)
    return model


# Parameter of `Qwen2` -> its names in transformers. Names of parameters of a layer are those within
# the layer. A parameter that joins several matrices has the names of all of them.
_HUB_NAMES = {
    "embedding.weight": ["model.embed_tokens.weight"],
    "final_norm": ["model.norm.weight"],
    "head.weight": ["lm_head.weight"],
    "attention_norm": ["input_layernorm.weight"],
    "feed_forward_norm": ["post_attention_layernorm.weight"],
    "query_key_value.weight": [f"self_attn.{letter}_proj.weight" for letter in "qkv"],
    "query_key_value.bias": [f"self_attn.{letter}_proj.bias" for letter in "qkv"],
    "attention_out.weight": ["self_attn.o_proj.weight"],
    "gate_up.weight": ["mlp.gate_proj.weight", "mlp.up_proj.weight"],
    "down.weight": ["mlp.down_proj.weight"],
}


def _hub_names(parameter: str) -> list[str]:
    """The names in transformers of the matrices that a parameter of `Qwen2` joins, in order."""
    if not parameter.startswith("layers."):
        return _HUB_NAMES[parameter]
    # Such as "layers.0.down.weight".
    _, index, name_in_layer = parameter.split(".", 2)
    return [f"model.layers.{index}.{name}" for name in _HUB_NAMES[name_in_layer]]


def load_hub_weights(model: Qwen2, weights: dict[str, Tensor]) -> None:
    """Load weights, which have the names of transformers, into a model."""
    state = {}
    for parameter, _ in model.named_parameters():
        parts = [weights[name] for name in _hub_names(parameter)]
        state[parameter] = torch.cat(parts).float()
    model.load_state_dict(state)


def to_hub(model: Qwen2) -> dict[str, Tensor]:
    """The weights of a model by their names in transformers, with joined matrices split."""
    config = model.config
    query_size = config.num_attention_heads * config.head_size
    key_value_size = config.num_key_value_heads * config.head_size
    weights = {}
    for parameter, tensor in model.named_parameters():
        names = _hub_names(parameter)
        if len(names) == 3:  # query, key and value; keys and values may have fewer heads
            sizes = [query_size, key_value_size, key_value_size]
        else:
            sizes = [len(tensor) // len(names)] * len(names)
        for name, part in zip(names, tensor.detach().cpu().split(sizes), strict=True):
            weights[name] = part.contiguous()
    return weights
