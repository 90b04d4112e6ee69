"""The tiny Qwen2, its tokenizer and its sampler against transformers."""

import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from rspo.core.errors import InputError
from rspo.policies import qwen2
from rspo.policies.qwen2 import DecodingMemory, Memory, Qwen2, Shape, response_logits
from rspo.policies.sampler import sample
from rspo.policies.tokenizer import ALPHABET, ChatTokenizer, save_tokenizer

END, PAD = 1, 0


def make(key_value_heads: int = 2, tied: bool = True, vocabulary: int = 35) -> Qwen2:
    shape = Shape(vocabulary, 64, 2, 2, key_value_heads, 192, context=28, tied=tied)
    model = Qwen2(shape)
    # Weights large enough that attention and distributions are far from uniform.
    model.initialise(0.2, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name or "norm" in name:
                parameter.add_(torch.randn(parameter.shape) * 0.3)
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tokenizer(tmp_path, 10, 28)
    qwen2.save(make(), tmp_path, {"eos_token_id": END, "pad_token_id": PAD})
    return tmp_path


@pytest.mark.parametrize(("key_value_heads", "tied"), [(2, True), (1, True), (2, False)])
def test_logits_equal_those_of_transformers(
    tmp_path: Path, key_value_heads: int, tied: bool
) -> None:
    model = make(key_value_heads, tied)
    qwen2.save(model, tmp_path, {"eos_token_id": END, "pad_token_id": PAD})
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    tokens = torch.randint(0, 35, (5, 20))
    with torch.no_grad():
        ours = model.logits(model(tokens, Memory()))
        expected = theirs(input_ids=tokens).logits
    assert expected.abs().max() > 1
    torch.testing.assert_close(ours, expected, atol=2e-5, rtol=2e-5)


def test_a_model_of_transformers_loads(tmp_path: Path) -> None:
    config = Qwen2Config(
        vocab_size=35,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=96,
        max_position_embeddings=64,
        rope_theta=1e6,
        tie_word_embeddings=False,
    )
    theirs = Qwen2ForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path)
    tokens = torch.randint(0, 35, (3, 30))
    model = qwen2.load(tmp_path)
    with torch.no_grad():
        ours = model.logits(model(tokens, Memory()))
        torch.testing.assert_close(ours, theirs(input_ids=tokens).logits, atol=2e-5, rtol=2e-5)


def test_saving_and_loading_changes_no_bit(folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    qwen2.save(qwen2.load(folder), again, {"eos_token_id": END, "pad_token_id": PAD})
    name = "model.safetensors"
    assert (again / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("damage", ["missing", "truncated", "other architecture"])
def test_a_bad_model_folder_is_named(folder: Path, damage: str) -> None:
    weights, config = folder / "model.safetensors", folder / "config.json"
    if damage == "missing":
        weights.unlink()
    elif damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:1000])
    else:
        config.write_text(config.read_text().replace('"qwen2"', '"llama"'))
    with pytest.raises(InputError, match=str(folder)):
        qwen2.load(folder)


@pytest.mark.parametrize("key_value_heads", [1, 2])
def test_decoding_one_token_at_a_time_gives_the_same_hidden_states(key_value_heads: int) -> None:
    model = make(key_value_heads)
    tokens = torch.randint(0, 35, (6, 20))
    with torch.no_grad():
        whole = model(tokens, Memory())
        prompt = Memory()
        model(tokens[:, :10], prompt)
        decoding = DecodingMemory(prompt, torch.arange(6), 28)
        for position in range(10, 20):
            if position == 15:  # rows that ended are forgotten
                decoding.keep(torch.tensor([1, 4, 5]))
                tokens, whole = tokens[[1, 4, 5]], whole[[1, 4, 5]]
            step = model(tokens[:, position : position + 1], decoding)[:, 0]
            torch.testing.assert_close(step, whole[:, position], atol=2e-5, rtol=2e-5)


def test_a_prompt_read_once_serves_all_its_responses() -> None:
    model = make()
    prompts, responses = torch.randint(0, 35, (3, 10)), torch.randint(0, 35, (7, 5))
    prompt_of = torch.tensor([0, 0, 1, 2, 2, 2, 0])
    with torch.no_grad():
        shared = response_logits(model, prompts, prompt_of, responses)
        whole = torch.cat((prompts[prompt_of], responses), dim=1)
        expected = model.logits(model(whole, Memory()))[:, 9:-1]
    torch.testing.assert_close(shared, expected, atol=2e-5, rtol=2e-5)


# --- sampler ---------------------------------------------------------------------------------


def draw(model: Qwen2, prompts: int = 4, n: int = 64, **options: object) -> object:
    tokens = torch.randint(2, 35, (prompts, 10), generator=torch.Generator().manual_seed(3))
    settings: dict[str, object] = {
        "max_tokens": 18,
        "end": END,
        "pad": PAD,
        "generator": torch.Generator().manual_seed(7),
    }
    return tokens, sample(model, tokens.tolist(), n, **(settings | options))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_and_entropy_are_those_of_transformers(
    folder: Path, temperature: float
) -> None:
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompts, responses = draw(qwen2.load(folder), temperature=temperature)
    whole = torch.cat((prompts.repeat_interleave(64, 0), responses.tokens), dim=1)
    with torch.no_grad():
        log_p = (theirs(input_ids=whole).logits[:, 9:-1] / temperature).log_softmax(-1)
    expected = log_p.gather(-1, responses.tokens[..., None])[..., 0]
    entropy = -(log_p.exp() * log_p).sum(-1)
    mask = responses.mask
    assert mask.float().mean() < 0.95  # some ended early, so rows were left out
    torch.testing.assert_close(responses.log_probs[mask], expected[mask], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(responses.entropy[mask], entropy[mask], atol=1e-4, rtol=1e-4)
    assert (responses.log_probs[~mask] == 0).all()
    assert (responses.tokens[~mask] == PAD).all()


def test_responses_stop_at_the_end_token_or_the_limit() -> None:
    _, responses = draw(make(), prompts=8)
    assert 0 < responses.finished.float().mean() < 1
    for tokens, length, finished in zip(
        responses.tokens.tolist(), responses.lengths.tolist(), responses.finished, strict=True
    ):
        assert tokens[: length - 1].count(END) == 0
        assert (tokens[length - 1] == END) == bool(finished)
        assert finished or length == 18


def test_frequencies_of_first_tokens_follow_the_model() -> None:
    """Chi-squared over 40,000 draws of one prompt's first token."""
    model = make()
    prompts, responses = draw(model, prompts=1, n=40_000, max_tokens=1)
    with torch.no_grad():
        p = model.logits(model(prompts, Memory())[:, -1]).softmax(-1)[0]
    counts = torch.bincount(responses.tokens[:, 0], minlength=35)
    expected = p * 40_000
    likely = expected > 5
    statistic = float(((counts - expected) ** 2 / expected)[likely].sum())
    freedom = int(likely.sum()) - 1
    assert statistic < freedom + 5 * math.sqrt(2 * freedom)


def test_the_same_seed_gives_the_same_responses_and_another_seed_others() -> None:
    model = make()
    first = draw(model)[1]
    assert torch.equal(first.tokens, draw(model)[1].tokens)
    other = draw(model, generator=torch.Generator().manual_seed(8))[1]
    assert not torch.equal(first.tokens, other.tokens)


def test_prompts_of_different_lengths_and_too_long_ones_are_errors() -> None:
    options = {"end": END, "pad": PAD, "generator": torch.Generator()}
    with pytest.raises(InputError, match=r"equally long in tokens, got \[1, 2\]"):
        sample(make(), [[2], [2, 3]], 1, max_tokens=4, **options)
    with pytest.raises(InputError, match="need 42 tokens, the model has 28"):
        sample(make(), [[2, 3]], 1, max_tokens=40, **options)


# --- tokenizer -------------------------------------------------------------------------------


def test_the_tokenizer_folder_means_the_same_to_transformers(folder: Path) -> None:
    ours, theirs = ChatTokenizer(folder), AutoTokenizer.from_pretrained(folder)
    for text in [ALPHABET, " 8x+2=66", "66-2=64/8=\\boxed{8}", "   "]:
        assert theirs.encode(text, add_special_tokens=False) == ours.encode([text])[0]
        assert theirs.decode(ours.encode([text])[0]) == text
    messages = [{"role": "user", "content": "8x+2=66"}]
    (ids,) = ours.prompts([messages])
    assert len(ids) == 10
    text = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert theirs.encode(text, add_special_tokens=False) == ids
    assert (theirs.eos_token_id, theirs.pad_token_id) == (ours.end, ours.pad) == (END, PAD)


def test_the_box_is_one_token(folder: Path) -> None:
    assert len(ChatTokenizer(folder).encode(["\\boxed{"])[0]) == 1


def test_a_character_outside_the_alphabet_is_an_error(folder: Path) -> None:
    with pytest.raises(InputError, match="cannot write 'π=3'"):
        ChatTokenizer(folder).encode(["π=3"])


def test_a_chat_template_cannot_reach_python(folder: Path) -> None:
    import json

    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    config["chat_template"] = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    path.write_text(json.dumps(config))
    with pytest.raises(Exception, match="unsafe"):
        ChatTokenizer(folder).prompts([[{"role": "user", "content": "1"}]])
