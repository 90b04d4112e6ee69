"""Sampling from a model of transformers, compared with plain forward passes."""

import math
from collections import Counter
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    MambaConfig,
    MistralConfig,
    MptConfig,
    PreTrainedConfig,
    Qwen3Config,
)

from rspo.core.errors import InputError
from rspo.core.seeds import generator_of
from rspo.policies import transformers_sampler
from rspo.policies.responses import Drawn
from rspo.policies.transformers_sampler import TransformersModel
from tests.support import llama_model

END, TOKENS = 2, 20
# Of several lengths, with and without a common beginning.
COMMON = llama_model.tokenizer().encode("What is the number? the answer is ").ids
PROMPTS = [COMMON + llama_model.tokenizer().encode(text).ids for text in ("7", "12 + 345", "a box")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TransformersModel:
    folder = tmp_path_factory.mktemp("llama") / "model"
    llama_model.write(folder)
    return TransformersModel(folder, [END])


def draw(
    model: TransformersModel,
    prompts: list[list[int]],
    names: list[int] | None = None,
    **more: float,
) -> list[Drawn]:
    generators = [generator_of(0, name) for name in names or range(len(prompts))]
    return model.sample(prompts, generators, max_tokens=TOKENS, **more)


def log_p(model: TransformersModel, ids: list[int]) -> torch.Tensor:
    """Log-probabilities of the next token after each token, (tokens, vocabulary)."""
    with torch.inference_mode():
        return torch.log_softmax(model.model(torch.tensor([ids])).logits[0], dim=-1)


@pytest.mark.parametrize("prompts", [PROMPTS, [[5], *PROMPTS]], ids=["common", "none in common"])
def test_log_probabilities_are_those_of_the_model_without_padding(
    model: TransformersModel, prompts: list[list[int]]
) -> None:
    rows = prompts * 10
    responses = draw(model, rows)
    assert {len(response.tokens) for response in responses} >= {TOKENS}
    assert any(END in response.tokens for response in responses)
    for prompt, response in zip(rows, responses, strict=True):
        assert END not in response.tokens[:-1]
        assert len(response.tokens) == TOKENS or response.tokens[-1] == END
        theirs = log_p(model, [*prompt, *response.tokens])[len(prompt) - 1 : -1]
        expected = theirs.gather(1, torch.tensor(response.tokens)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(response.log_probs), expected, atol=2e-5, rtol=0)


SIZES = {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
HEADS = {"num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 48}
WINDOW = {"sliding_window": 4}  # shorter than the prompts
FAMILIES: dict[str, PreTrainedConfig] = {
    "qwen3": Qwen3Config(**SIZES, **HEADS),
    "mistral": MistralConfig(**SIZES, **HEADS, **WINDOW),
    "gemma 2": Gemma2Config(**SIZES, **HEADS, **WINDOW),
    "gpt-2": GPT2Config(vocab_size=400, n_embd=32, n_layer=2, n_head=2),
    "mpt": MptConfig(vocab_size=400, d_model=32, n_heads=2, n_layers=2),  # ALiBi
}


@pytest.mark.parametrize("family", FAMILIES)
def test_samples_of_other_families_have_the_models_log_probabilities(
    tmp_path: Path, family: str
) -> None:
    torch.manual_seed(0)
    config = FAMILIES[family]
    config.initializer_range = 0.4
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    other = TransformersModel(tmp_path, [END])
    rows = PROMPTS * 5
    for prompt, response in zip(rows, draw(other, rows), strict=True):
        theirs = log_p(other, [*prompt, *response.tokens])[len(prompt) - 1 : -1]
        expected = theirs.gather(1, torch.tensor(response.tokens)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(response.log_probs), expected, atol=1e-4, rtol=0)


def test_a_model_with_other_states_than_keys_and_values_is_an_error(tmp_path: Path) -> None:
    AutoModelForCausalLM.from_config(MambaConfig(**SIZES, state_size=4)).save_pretrained(tmp_path)
    with pytest.raises(InputError, match="this one has LinearAttentionLayer"):
        TransformersModel(tmp_path, [END])


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 0.8)])
def test_first_tokens_have_the_probabilities_of_the_model(
    model: TransformersModel, temperature: float, top_p: float
) -> None:
    """By transformers' own operations in another order."""
    number = 6000
    generators = [generator_of(1, row) for row in range(number)]
    limits = {"max_tokens": 1, "temperature": temperature, "top_p": top_p}
    responses = model.sample([PROMPTS[1]] * number, generators, **limits)
    p, order = torch.softmax(log_p(model, PROMPTS[1])[-1] / temperature, -1).sort(descending=True)
    kept = p.cumsum(0) - p < top_p
    expected = dict(zip(order[kept].tolist(), (p[kept] / p[kept].sum()).tolist(), strict=True))
    counts = Counter(response.tokens[0] for response in responses)
    assert set(counts) <= set(expected)
    likely = [token for token in expected if expected[token] * number > 20]
    assert len(likely) > 5
    for token in likely:
        error = (expected[token] * (1 - expected[token]) / number) ** 0.5
        assert counts[token] / number == pytest.approx(expected[token], abs=5 * error)
    for response in responses:
        log_of = math.log(expected[response.tokens[0]])
        assert response.log_probs[0] == pytest.approx(log_of, abs=1e-4)


def test_a_response_does_not_depend_on_the_others(
    model: TransformersModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, names = PROMPTS * 4, list(range(12))
    together = [response.tokens for response in draw(model, rows, names)]
    assert len({tuple(tokens) for tokens in together}) == 12
    backwards = draw(model, rows[::-1], names[::-1])
    assert [response.tokens for response in backwards[::-1]] == together
    monkeypatch.setattr(transformers_sampler, "ROWS", 5)
    monkeypatch.setattr(transformers_sampler, "STRETCH", 3)
    assert [response.tokens for response in draw(model, rows, names)] == together


def test_each_end_token_ends_a_response(model: TransformersModel, tmp_path: Path) -> None:
    """Responses are those with one end token, up to the first of several."""
    llama_model.write(tmp_path / "model")
    ends = [END, *llama_model.tokenizer().encode("7e").ids]
    several = TransformersModel(tmp_path / "model", ends)
    ended = set()
    for long, response in zip(draw(model, PROMPTS * 20), draw(several, PROMPTS * 20), strict=True):
        first = next((place for place, token in enumerate(long.tokens) if token in ends), TOKENS)
        assert response.tokens == long.tokens[: first + 1]
        ended |= {*response.tokens[-1:]} & {*ends}
    assert ended == {*ends}


def test_new_weights_are_used(model: TransformersModel, tmp_path: Path) -> None:
    llama_model.write(tmp_path / "model")
    other = TransformersModel(tmp_path / "model", [END])
    before = draw(other, PROMPTS)
    weights = {name: value.clone() for name, value in model.model.state_dict().items()}
    other.load_weights({name: value + 0.1 for name, value in weights.items()})
    assert draw(other, PROMPTS) != before
    other.load_weights(weights)
    assert draw(other, PROMPTS) == before
    with pytest.raises(ValueError, match=r"model\.norm\.weight has the shape \(1,\)"):
        other.load_weights(weights | {"model.norm.weight": torch.ones(1)})
    del weights["model.norm.weight"]
    with pytest.raises(KeyError, match=r"model\.norm\.weight"):
        other.load_weights(weights)
