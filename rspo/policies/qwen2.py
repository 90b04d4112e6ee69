"""Qwen2 and Llama in one file, for models that fit on one CPU or GPU.

The local engine and the sampler `torch` use this model instead of transformers: on one CPU core and
with the models of the tiny scale, sampling from it (`rspo.policies.sampler`) is about 1.7 times as
fast as transformers' `generate` (benchmarks/results.md). Training and the sampler share its forward
pass. `save` and `load` write and read Hugging Face folders.

The two families differ in one place: query, key and value of Qwen2 have a bias. Unlike
transformers, this model has no dropout, sliding windows, RoPE scaling or attention back ends;
`load` refuses models that need one of these. One matrix product computes query, key and value, and
another one both halves of the gated feed-forward, because at hidden size 64, time depends more on
the number of operations than on their size. Tests compare the logits with those of transformers.

Parameters are float32. The layers compute in `Qwen2.compute_dtype`, to which each matrix is rounded
when it is used, so gradients and updates stay in float32. The embedding, the last norm and the
logits are float32 in any case.

Shapes: B sequences of T tokens.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

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
# Prompts that begin with as many equal tokens share their computation. Worked examples have more,
# while the chat template of a question alone has fewer.
SHARED_AT_LEAST = 64
FAMILIES = ("llama", "qwen2")  # values of `model_type` in config.json that `load` reads


@dataclass(frozen=True)
class ModelConfig:
    """The keys of a Hugging Face config that decide the forward pass, with the same names.

    bias: whether query, key and value have a bias, as in Qwen2 and unlike in Llama. This one is not
        a key of the config.
    """

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
    bias: bool = True

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_attention_heads


class Linear(nn.Linear):
    """A linear map that computes in the data type of its input."""

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), bias)


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
        joined = (heads + 2 * key_value_heads) * size
        self.query_key_value = Linear(hidden, joined, bias=config.bias)
        self.attention_out = Linear(heads * size, hidden, bias=False)
        self.feed_forward_norm = nn.Parameter(torch.ones(hidden))
        self.gate_up = Linear(hidden, 2 * config.intermediate_size, bias=False)
        self.down = Linear(config.intermediate_size, hidden, bias=False)

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
        normed = rms_norm(x, self.attention_norm, config)
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
        normed = rms_norm(x, self.feed_forward_norm, self.config)
        gate, up = self.gate_up(normed).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


def rms_norm(x: Tensor, weight: Tensor, config: ModelConfig) -> Tensor:
    """Divide x (..., hidden) by its root mean square, and scale it by weight (hidden,)."""
    return F.rms_norm(x, (config.hidden_size,), weight.to(x.dtype), config.rms_norm_eps)


def rotate(x: Tensor, rotation: KeyValue) -> Tensor:
    """Apply the rotary position embedding to x (..., T, head size).

    Args:
        rotation: cosines and sines of the angles, (T, head size) each, or (B, 1, T, head size).
    """
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Qwen2(nn.Module):
    """The decoder: `forward` computes hidden states, `logits` the logits of the next token.

    compute_dtype: the data type in which the layers compute; the parameters are float32.
    stored_dtype: the data type of the weights in the files of the model.
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.compute_dtype = torch.float32
        self.stored_dtype = torch.float32
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.final_norm = nn.Parameter(torch.ones(config.hidden_size))
        if not config.tie_word_embeddings:
            self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        cos, sin = rotations(config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    @classmethod
    def without_weights(cls, config: ModelConfig) -> "Qwen2":
        """A model whose weights have no values yet, which is faster than to draw them."""
        with torch.device("meta"):
            model = cls(config)
        model.to_empty(device="cpu")
        model.cos, model.sin = rotations(config)
        return model

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.final_norm.device

    def for_sampling(self) -> "Qwen2":
        """The model with the matrices of its layers in `compute_dtype`, without gradients.

        Sampling reads each matrix once for each token, so it would be slow to round them every
        time. A model that computes in float32 is returned as it is.
        """
        if self.compute_dtype == torch.float32:
            return self
        with torch.device("meta"):
            copy = Qwen2(self.config)
        weights = {}
        for name, parameter in self.named_parameters():
            weight = parameter.detach()
            weights[name] = weight.to(self.compute_dtype) if name.startswith("layers.") else weight
        copy.load_state_dict(weights, assign=True)
        copy.cos = self.cos
        copy.sin = self.sin
        copy.compute_dtype = self.compute_dtype
        return copy.requires_grad_(False)

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
            tokens: (B, T) ids; rows are equally long. Padding is at the end, or at the beginning of
                a prompt if the cache counts it.
            positions: the positions to return; the last layer computes only these.

        Returns: (B, T, hidden), or only the given positions, after the last norm, in float32.
        """
        end = cache.length + tokens.shape[1]
        dtype = self.compute_dtype
        places = positions_of(cache, end)
        rotation = (self.cos[places].to(dtype), self.sin[places].to(dtype))
        x = self.embedding(tokens).to(dtype)
        for index, layer in enumerate(self.layers):
            wanted = positions if index == len(self.layers) - 1 else slice(None)
            x = layer(x, rotation, partial(cache.attend, index), wanted)
        cache.length = end
        return rms_norm(x.float(), self.final_norm, self.config)

    def logits(self, hidden: Tensor) -> Tensor:
        """Compute logits (..., vocabulary) of the next token from hidden states (..., hidden)."""
        head = self.embedding if self.config.tie_word_embeddings else self.head
        return F.linear(hidden, head.weight)


def rotations(config: ModelConfig) -> KeyValue:
    """Cosines and sines of the rotary position embedding, (positions, head size) each, in float32.

    Pair i of a head turns by theta^(-2i / head size) per position. `rotate` pairs the two halves of
    a head, so the angles occur twice.
    """
    half = torch.arange(0, config.head_size, 2, dtype=torch.float32) / config.head_size
    positions = torch.arange(config.max_position_embeddings)
    angles = positions[:, None] * config.rope_theta**-half  # (positions, head size / 2)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def positions_of(cache: "KVCache | StaticKVCache", end: int) -> slice | Tensor:
    """The positions in their sequences of the tokens that follow those in a cache, up to `end`.

    Only differences of positions matter, so padding at the beginning may count. Padding after a
    shared beginning may not: it would move the beginning away from the rest.

    Returns: a slice of the positions, the same in all rows; or (B, 1, T) if rows differ.
    """
    if cache.padding is None or cache.shared == 0:
        return slice(cache.length, end)
    places = torch.arange(cache.length, end, device=cache.padding.device)
    # The positions of the padding are of no account, but must exist.
    return (places - cache.padding[:, None]).clamp(min=0)[:, None]


def padded_on_the_left(
    prompts: Sequence[Sequence[int]], pad: int, device: torch.device
) -> tuple[Tensor, Tensor | None]:
    """Make one tensor of prompts of different lengths.

    Only differences of positions enter the attention, so padding at the beginning changes nothing
    but rounding if no token attends to it.

    Returns: the token ids, (P, L); and the number of padding tokens of each prompt, (P,), or None
        if no prompt has any.
    """
    longest = max(map(len, prompts))
    padding = [longest - len(prompt) for prompt in prompts]
    rows = [
        [pad] * missing + list(prompt) for missing, prompt in zip(padding, prompts, strict=True)
    ]
    tokens = torch.tensor(rows, device=device)
    if not any(padding):
        return tokens, None
    return tokens, torch.tensor(padding, device=device)


class KVCache:
    """Keys and values of whole sequences, differentiable. The cache grows by concatenation.

    padding: (B,) the number of padding tokens of each row, to which no token attends; None if no
        row has any. They follow the shared beginning.
    shared: the number of tokens at the beginning that are the same in all rows.
    """

    def __init__(self, padding: Tensor | None = None) -> None:
        self.padding = padding
        self.shared = 0
        self.length = 0
        self.layers: list[KeyValue] = []

    def select(self, rows: Tensor) -> "KVCache":
        """A new cache with the given rows, in that order. A row may occur several times.

        With this, each response gets a copy of the row of its prompt.
        """
        selected = KVCache(None if self.padding is None else self.padding[rows])
        selected.shared = self.shared
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
        if self.padding is not None:
            mask = self._without_padding(mask)[:, None]
        grouped = query.shape[1] != key.shape[1]
        return F.scaled_dot_product_attention(query, key, value, mask, enable_gqa=grouped)

    def _without_padding(self, mask: Tensor) -> Tensor:
        """Leave the padding out of a mask (T, total), for each row: (B, T, total).

        A padding token attends to itself, because the attention to nothing is not a number.
        """
        assert self.padding is not None
        length, total = mask.shape
        keys = torch.arange(total, device=mask.device)
        is_token = ~_is_padding(keys, self.padding, self.shared)  # (B, total)
        is_itself = keys == keys[total - length :, None]  # (T, total)
        return mask & (is_token[:, None] | is_itself)


def _is_padding(places: Tensor, padding: Tensor, shared: int) -> Tensor:
    """Whether each of some places in a cache has padding, (B, places)."""
    return (places >= shared) & (places < shared + padding[:, None])


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
        self.shared = prompts.shared
        self.padding = None if prompts.padding is None else prompts.padding[rows]
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
        # Added to the scores: (capacity,), or one row for each row of the cache if prompts have
        # padding.
        self.mask = self.keys[0].new_full((capacity,), -torch.inf)
        self.mask[: self.length] = 0
        if self.padding is not None:
            places = torch.arange(capacity, device=rows.device)
            is_padding = _is_padding(places, self.padding, self.shared)
            self.mask = self.mask.expand(len(rows), -1).masked_fill(is_padding, -torch.inf)

    def select(self, rows: Tensor) -> None:
        """Keep only the given rows of the cache, in that order. A row may occur several times."""
        kept = len(self.keys[0])
        if len(rows) == kept and torch.equal(rows, torch.arange(kept, device=rows.device)):
            return
        self.keys = [keys.index_select(0, rows) for keys in self.keys]
        self.values = [values.index_select(0, rows) for values in self.values]
        if self.padding is not None:
            self.padding = self.padding.index_select(0, rows)
            self.mask = self.mask.index_select(0, rows)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Add a layer's new key and value of each row, and attend to all that the cache then has.

        The shapes are those of `Attend` with T = 1. `Qwen2.forward` increases `length` afterwards,
        when all layers have done this.
        """
        keys = self.keys[layer]
        values = self.values[layer]
        keys[..., self.length] = key[:, :, 0]
        values[:, :, self.length] = value[:, :, 0]
        self.mask[..., self.length] = 0
        batch, heads, size, _ = keys.shape
        filled = max(16, _rounded_up(self.length + 1))
        # (B * key-value heads, queries per key-value head, size)
        query = query.reshape(batch * heads, -1, size) * size**-0.5
        mask = self.mask[..., :filled]
        if mask.dim() == 2:
            mask = mask.repeat_interleave(heads, dim=0)[:, None]
        scores = torch.bmm(query, keys.flatten(0, 1)[..., :filled]) + mask
        attention = scores.float().softmax(dim=-1).to(value.dtype)
        output = torch.bmm(attention, values.flatten(0, 1)[:, :filled])
        return output.view(batch, -1, 1, size)


def _rounded_up(length: int) -> int:
    """The smallest multiple of 4 that is at least `length`.

    In matrix products of other sizes, the rounding of a row depends on its place in the batch. With
    fewer than about 13 columns, the matrix library is slow, hence the minimum of 16 in
    `StaticKVCache`.
    """
    return -(-length // 4) * 4


def read_prompts(model: Qwen2, prompts: Tensor, padding: Tensor | None) -> tuple[Tensor, KVCache]:
    """Compute the keys and values of prompts, a beginning that all of them share only once.

    Args:
        prompts: (P, L) ids, padded on the left.
        padding: (P,) the number of padding tokens of each prompt; None if no prompt has any.

    Returns: (P, 1, hidden), the hidden state of the last token of each prompt; and the cache.
    """
    shared = shared_beginning(prompts, padding)
    if len(prompts) == 1 or shared < SHARED_AT_LEAST:
        cache = KVCache(padding)
        return model(prompts, cache, LAST), cache
    first = 0 if padding is None else int(padding[0])
    beginning = KVCache()
    model(prompts[:1, first : first + shared], beginning, LAST)
    cache = beginning.select(torch.zeros(len(prompts), dtype=torch.long, device=prompts.device))
    cache.padding = padding
    cache.shared = shared
    # Without its first `shared` columns, a row begins with as many other tokens as it had padding.
    # No token attends to them.
    return model(prompts[:, shared:], cache, LAST), cache


def shared_beginning(prompts: Tensor, padding: Tensor | None) -> int:
    """The number of tokens with which all prompts begin, without the last token of any prompt.

    The arguments are those of `read_prompts`.
    """
    length = prompts.shape[1]
    if padding is None:
        padding = torch.zeros(len(prompts), dtype=torch.long, device=prompts.device)
    shortest = length - int(padding.max())
    columns = padding[:, None] + torch.arange(shortest - 1, device=prompts.device)
    beginnings = prompts.gather(1, columns)
    is_same = (beginnings == beginnings[:1]).all(dim=0)
    return int(is_same.long().cumprod(dim=0).sum())


def response_logits(
    model: Qwen2,
    prompts: Tensor,
    prompt_of: Tensor,
    responses: Tensor,
    padding: Tensor | None = None,
) -> Tensor:
    """Compute the logits with which each token of each response is predicted.

    Each prompt is computed once for all its responses, and a long beginning of all prompts once.

    Args:
        prompts: (P, L) ids.
        prompt_of: (B,) for each response, the row of its prompt in `prompts`.
        responses: (B, T) ids, padded at the end.
        padding: (P,) the number of padding tokens at the beginning of each prompt; None for none.

    Returns: (B, T, vocabulary) in float32. Position t has the logits that predict responses[:, t],
        even where it is padding.
    """
    last, cache = read_prompts(model, prompts, padding)
    # The last token of the prompt predicts the first token of the response. Each token of the
    # response predicts the next one.
    hidden = last[prompt_of]
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
    has_bias = config.pop("bias")
    config |= {
        "architectures": ["Qwen2ForCausalLM" if has_bias else "LlamaForCausalLM"],
        "model_type": "qwen2" if has_bias else "llama",
        "dtype": "float32",
        "hidden_act": "silu",
        "rope_theta": rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": rope_theta},
    }
    (folder / "config.json").write_text(json.dumps(config | special_tokens, indent=1) + "\n")
    save_weights(model, folder)


def save_weights(model: Qwen2, folder: Path) -> None:
    """Write model.safetensors in the data type of the files that the model was read from."""
    weights = {name: weight.to(model.stored_dtype) for name, weight in to_hub(model).items()}
    content = safetensors_bytes(weights, metadata={"format": "pt"})
    (folder / "model.safetensors").write_bytes(content)


def load(folder: Path) -> Qwen2:
    """Read the folder of a Qwen2 or a Llama; the parameters are on the CPU, in float32.

    Raises: InputError if it is not such a folder, or if the model needs what this one lacks.
    """
    config = read_config(folder)
    weights: dict[str, Tensor] = {}
    try:
        for file in sorted(folder.glob("*.safetensors")):
            weights |= load_file(file)
        if not weights:
            raise InputError(f"{folder}: not a model folder: it has no *.safetensors")
        model = Qwen2.without_weights(config)
        model.stored_dtype = weights["model.embed_tokens.weight"].dtype
        load_hub_weights(model, weights)
    except KeyError as error:
        raise InputError(f"{folder}: not a model folder: no weight {error}") from None
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{folder}: not a model folder: {error}") from None
    return model


def read_config(folder: Path, name: str | None = None) -> ModelConfig:
    """Read config.json of a model folder.

    Args:
        name: of the folder, for errors; by default its path.

    Raises: InputError if the model is neither a Qwen2 nor a Llama, or if this file does not have
        what it needs, such as scaled rotary position embeddings.
    """
    name = name or str(folder)
    file = f"{name}/config.json"
    try:
        config = json.loads((folder / "config.json").read_text())
        _require_supported(config, file)
        rope = config.get("rope_parameters") or config
        return ModelConfig(
            vocab_size=config["vocab_size"],
            hidden_size=config["hidden_size"],
            num_hidden_layers=config["num_hidden_layers"],
            num_attention_heads=config["num_attention_heads"],
            # What old files leave out has the defaults of transformers.
            num_key_value_heads=config.get("num_key_value_heads", config["num_attention_heads"]),
            intermediate_size=config["intermediate_size"],
            max_position_embeddings=config["max_position_embeddings"],
            rms_norm_eps=config["rms_norm_eps"],
            tie_word_embeddings=config.get("tie_word_embeddings", False),
            rope_theta=rope.get("rope_theta", 10000.0),
            bias=config["model_type"] == "qwen2",
        )
    except KeyError as error:
        raise InputError(f"{file}: not a model's config: no key {error}") from None
    except InputError:
        raise
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"{name}: not a model folder: {error}") from None


def _require_supported(config: Mapping[str, Any], file: str) -> None:
    """Raises: InputError for the first key of a config whose value `Qwen2` cannot compute."""
    # Older files have the first key, newer ones the second; transformers prefers the first.
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    head_size = config["hidden_size"] // config["num_attention_heads"]
    # Key -> its value, which an older file may leave out, and the values that are allowed.
    found: dict[str, tuple[Any, Sequence[Any]]] = {
        "model_type": (config.get("model_type"), FAMILIES),
        "hidden_act": (config.get("hidden_act", "silu"), ("silu",)),
        "head_dim": (config.get("head_dim") or head_size, (head_size,)),
        "rope_type": (rope.get("rope_type", rope.get("type", "default")), ("default",)),
        "use_sliding_window": (config.get("use_sliding_window") or False, (False,)),
        "attention_bias": (config.get("attention_bias") or False, (False,)),
        "mlp_bias": (config.get("mlp_bias") or False, (False,)),
    }
    for key, (value, allowed) in found.items():
        if value not in allowed:
            raise InputError(
                f"{file}: {key} = {value!r}; allowed by the local engine and the sampler torch: "
                + ", ".join(map(repr, allowed))
            )


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
