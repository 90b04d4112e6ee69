"""The tiny Qwen2, its sampler and its tokenizer, compared with transformers."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rspo.config.names import ALPHABET
from rspo.config.schema import Sampling
from rspo.core.errors import InputError
from rspo.core.seeds import generator_of, seed_of
from rspo.policies import qwen2
from rspo.policies.device import PassLimits
from rspo.policies.qwen2 import KVCache, Qwen2, StaticKVCache, response_logits
from rspo.policies.responses import Block, Question
from rspo.policies.sampler import TorchSampler, draw_tokens, sample
from rspo.policies.tokenizer import ChatTokenizer
from tests.support.random_policy import END, PAD, peaked_model, save_policy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_policy(peaked_model(), tmp_path)


@pytest.mark.parametrize(("key_value_heads", "tied"), [(2, True), (1, True), (2, False)])
def test_transformers_loads_a_model_with_the_same_logits_and_saves_one_that_loads(
    tmp_path: Path, key_value_heads: int, tied: bool
) -> None:
    model = peaked_model(key_value_heads, tied)
    qwen2.save(model, tmp_path, {"eos_token_id": END, "pad_token_id": PAD})
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    tokens = torch.randint(0, 35, (5, 20))
    with torch.no_grad():
        ours = model.logits(model(tokens, KVCache()))
        expected = theirs(input_ids=tokens).logits
        theirs.save_pretrained(tmp_path / "again")
        again = qwen2.load(tmp_path / "again")
        assert torch.equal(again.logits(again(tokens, KVCache())), ours)
    assert expected.abs().max() > 1
    torch.testing.assert_close(ours, expected, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("damage", ["missing", "truncated", "other architecture"])
def test_the_error_for_a_bad_model_folder_has_its_path(folder: Path, damage: str) -> None:
    weights, config = folder / "model.safetensors", folder / "config.json"
    if damage == "missing":
        weights.unlink()
    elif damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:1000])
    else:
        config.write_text(config.read_text().replace('"qwen2"', '"qwen99"'))
    with pytest.raises(InputError, match=str(folder)):
        qwen2.load(folder)


@pytest.mark.parametrize("key_value_heads", [1, 2])
def test_decoding_one_token_at_a_time_gives_the_same_hidden_states(key_value_heads: int) -> None:
    model = peaked_model(key_value_heads)
    tokens = torch.randint(0, 35, (6, 20))
    with torch.no_grad():
        expected = model(tokens, KVCache())
        prompt = KVCache()
        model(tokens[:, :10], prompt)
        cache = StaticKVCache(prompt, torch.arange(6), 28)
        for position in range(10, 20):
            if position == 15:  # rows 0, 2 and 3 have ended, row 5 branches
                rows = torch.tensor([1, 4, 5, 5])
                cache.select(rows)
                tokens, expected = tokens[rows], expected[rows]
            step = model(tokens[:, position : position + 1], cache)[:, 0]
            torch.testing.assert_close(step, expected[:, position], atol=2e-5, rtol=2e-5)


def test_responses_that_share_a_prompt_have_the_logits_of_full_sequences() -> None:
    model = peaked_model()
    prompts, responses = torch.randint(0, 35, (3, 10)), torch.randint(0, 35, (7, 5))
    prompt_of = torch.tensor([0, 0, 1, 2, 2, 2, 0])
    with torch.no_grad():
        shared = response_logits(model, prompts, prompt_of, responses)
        sequences = torch.cat((prompts[prompt_of], responses), dim=1)
        expected = model.logits(model(sequences, KVCache()))[:, 9:-1]
    torch.testing.assert_close(shared, expected, atol=2e-5, rtol=2e-5)


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
    sequences = torch.cat((prompts.repeat_interleave(64, 0), responses.tokens), dim=1)
    with torch.no_grad():
        log_p = (theirs(input_ids=sequences).logits[:, 9:-1] / temperature).log_softmax(-1)
    expected = log_p.gather(-1, responses.tokens[..., None])[..., 0]
    entropy = -(log_p.exp() * log_p).sum(-1)
    mask = responses.mask
    assert mask.float().mean() < 0.95  # some responses ended early, so rows were removed
    torch.testing.assert_close(responses.log_probs[mask], expected[mask], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(responses.entropy[mask], entropy[mask], atol=1e-4, rtol=1e-4)
    assert (responses.log_probs[~mask] == 0).all()
    assert (responses.tokens[~mask] == PAD).all()


def test_without_a_temperature_the_policy_itself_is_sampled(folder: Path) -> None:
    model = qwen2.load(folder)
    _, responses = draw(model)
    _, expected = draw(model, temperature=1.0)
    assert torch.equal(responses.tokens, expected.tokens)
    assert torch.equal(responses.log_probs, expected.log_probs)


def test_responses_stop_at_the_end_token_or_the_limit() -> None:
    _, responses = draw(peaked_model(), prompts=8)
    assert 0 < responses.finished.float().mean() < 1
    for tokens, length, finished in zip(
        responses.tokens.tolist(), responses.lengths.tolist(), responses.finished, strict=True
    ):
        assert tokens[: length - 1].count(END) == 0
        assert (tokens[length - 1] == END) == bool(finished)
        assert finished or length == 18


def test_a_response_with_a_generator_of_its_own_does_not_depend_on_the_others() -> None:
    """And all batches have a multiple of the rows that are asked for."""
    model, batches = peaked_model(), []
    model.register_forward_hook(lambda _, given, __: batches.append(len(given[0])))
    prompts = torch.randint(2, 35, (3, 10), generator=torch.Generator().manual_seed(4)).tolist()
    seeds = iter(range(9))

    def responses(prompts: list[list[int]], n: int) -> list[list[int]]:
        own = [torch.Generator().manual_seed(next(seeds)) for _ in range(len(prompts) * n)]
        drawn = sample(
            model, prompts, n, max_tokens=18, end=END, pad=PAD, generator=own, multiple=4
        )
        assert not any(rows % 4 for rows in batches[1:])  # the first one reads the prompts
        batches.clear()
        return [
            row[:length] for row, length in zip(drawn.tokens.tolist(), drawn.lengths, strict=True)
        ]

    together = responses(prompts, 3)
    seeds = iter(range(9))
    alone = [responses([prompt], 1)[0] for prompt in prompts for _ in range(3)]
    assert together == alone
    assert len({len(row) for row in alone}) > 2


def test_a_token_is_the_one_in_whose_part_of_the_sum_the_noise_lies() -> None:
    """The sum may be off by rounding, and tokens without probability are never drawn."""
    p = torch.tensor([[0.0, 0.2, 0.3, 0.0], [0.25, 0.25, 0.25, 0.25]])
    noise = torch.tensor([0.0, 0.3, 0.5, 1.0, 0.0, 0.25, 0.7])
    drawn = draw_tokens(p.log(), torch.tensor([0, 0, 0, 0, 1, 1, 1]), noise)
    assert drawn.tolist() == [1, 1, 2, 3, 0, 1, 2]


def test_the_sampler_of_an_evaluation_draws_each_batch_from_its_own_stream(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch has responses of one limit, so that it can be drawn again without the others."""
    monkeypatch.setattr("rspo.policies.sampler.PROBLEMS_PER_BATCH", 2)
    lengths, limits = [9, 9, 9, 8, 9, 9], [9, 9, 9, 7, 18, 18]
    questions = [
        Question(str(row), [2 + row] * length, limit)
        for row, (length, limit) in enumerate(zip(lengths, limits, strict=True))
    ]
    sampling = Sampling(temperature=0.7, top_p=1, max_prompt_tokens=10, max_response_tokens=18)
    sampler = TorchSampler(folder, ChatTokenizer(folder), sampling)
    for number, part in ((0, ()), (2, (2,))):
        block = Block(number, 6, (5, "test"))
        batches = sampler.batches(questions, block)
        assert batches == [[0, 1], [2], [3], [4, 5]]
        for batch in batches:
            stream = (5, "test", batch[0], *part)
            expected = sample(
                *(sampler.model, [questions[row].prompt for row in batch], 6),
                max_tokens=limits[batch[0]],
                end=END,
                pad=PAD,
                generator=generator_of(*stream),
                temperature=0.7,
            )
            found, seed = sampler.draw(questions, batch, block)
            assert [len(one) for one in found] == expected.lengths.tolist()
            assert [token for row in found for token in row] == expected.tokens[
                expected.mask
            ].tolist()
            assert seed == seed_of(*stream)


def test_prompts_of_different_lengths_have_the_responses_that_they_have_alone() -> None:
    torch.manual_seed(0)
    model = peaked_model()
    prompts = [[2, 3, 4], [5] * 10, [7]]
    streams = iter(range(12))

    def drawn(prompts: list[list[int]]) -> tuple[list[list[int]], list[float]]:
        own = [torch.Generator().manual_seed(next(streams)) for _ in range(4 * len(prompts))]
        found = sample(model, prompts, 4, max_tokens=18, end=END, pad=PAD, generator=own)
        pairs = zip(found.tokens.tolist(), found.lengths.tolist(), strict=True)
        return [tokens[:length] for tokens, length in pairs], found.log_probs.sum(1).tolist()

    tokens, log_probs = drawn(prompts)
    streams = iter(range(12))
    alone = [drawn([prompt]) for prompt in prompts]
    assert tokens == [response for found, _ in alone for response in found]
    assert log_probs == pytest.approx([number for _, some in alone for number in some], rel=1e-4)


def test_a_response_ends_with_any_of_the_end_tokens() -> None:
    model = peaked_model()
    _, one = draw(model, prompts=8)
    _, several = draw(model, prompts=8, end=[END, 5])
    for mine, theirs, length, finished in zip(
        several.tokens.tolist(), one.tokens.tolist(), several.lengths, several.finished, strict=True
    ):
        ends = [place for place, token in enumerate(theirs) if token in (END, 5)]
        expected = ends[0] + 1 if ends else 18
        assert (int(length), bool(finished)) == (expected, bool(ends))
        assert mine[:expected] == theirs[:expected]


def test_the_bound_of_a_table_of_probabilities_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = peaked_model()
    _, expected = draw(model)
    limits = PassLimits(responses=128, logits=3 * 35)
    monkeypatch.setattr("rspo.policies.sampler.pass_limits", lambda device: limits)
    _, bounded = draw(model)
    assert torch.equal(bounded.tokens, expected.tokens)
    torch.testing.assert_close(bounded.log_probs, expected.log_probs)
    torch.testing.assert_close(bounded.entropy, expected.entropy)


def test_prompts_that_are_too_long_are_an_error() -> None:
    options = {"end": END, "pad": PAD, "generator": torch.Generator()}
    with pytest.raises(InputError, match="need 42 tokens, the model has 28"):
        sample(peaked_model(), [[2, 3]], 1, max_tokens=40, **options)


QUESTIONS = ["8x+2=66", "1", "(12)+(34)-5=?"]  # shorter and longer than the padded length


def test_transformers_reads_the_tokenizer_in_the_same_way(folder: Path) -> None:
    ours, theirs = ChatTokenizer(folder), AutoTokenizer.from_pretrained(folder)
    for text in [ALPHABET, " 8x+2=66", "66-2=64/8=\\boxed{8}", "   "]:
        assert theirs.encode(text, add_special_tokens=False) == ours.encode([text])[0]
        assert theirs.decode(ours.encode([text])[0]) == text
    assert (theirs.eos_token_id, theirs.pad_token_id) == (ours.end, ours.pad) == (END, PAD)
    assert len(theirs) == ours.size


@pytest.mark.parametrize("question", QUESTIONS)
def test_transformers_renders_the_same_prompts(folder: Path, question: str) -> None:
    theirs = AutoTokenizer.from_pretrained(folder)
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": "1"}]
    for chat in (turns[:1], turns):
        text = theirs.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        (ids,) = ChatTokenizer(folder).prompts([chat])
        assert theirs.encode(text, add_special_tokens=False) == ids


def test_the_box_is_one_token_and_a_character_outside_the_alphabet_an_error(folder: Path) -> None:
    assert len(ChatTokenizer(folder).encode(["\\boxed{"])[0]) == 1
    with pytest.raises(InputError, match="cannot write 'π=3'"):
        ChatTokenizer(folder).encode(["π=3"])
