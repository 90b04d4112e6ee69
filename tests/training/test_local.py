"""The algorithm of the local engine: its update against a plain statement of the loss."""

import math
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from rspo.config.schema import Optimizer, Training
from rspo.core.errors import InputError
from rspo.core.seeds import generator_of
from rspo.objectives import response_weights
from rspo.policies.device import PassLimits, pass_limits
from rspo.policies.qwen2 import KVCache, Qwen2
from rspo.policies.sampler import Responses, sample
from rspo.policies.tokenizer import ChatTokenizer, save_tokenizer
from rspo.rewards import verify
from rspo.rewards.verdict import CORRECT, INCORRECT, Verdict
from rspo.training.adam import learning_rate_factor
from rspo.training.local import (
    Rollout,
    Trainer,
    backward,
    chunks,
    clipped_objective,
    merge_equal,
    token_distributions,
)
from rspo.training.prompts import Prompts, prompts_of_step
from rspo.training.records import record_of
from rspo.training.rewards import Scored, texts_of, tokens_of
from rspo.training.simulated_errors import SimulatedErrors, with_wrong_verdicts
from tests.support import tiny_world
from tests.support.rollouts import PROMPTS, N, make_model, make_rollout

CELL = "small--rspo-pass--k4--n16--s0"
T = 18  # maximum response length


def make_tokenizer(folder: Path) -> ChatTokenizer:
    save_tokenizer(folder, 10, 28)
    return ChatTokenizer(folder)


def gradient(model: Qwen2) -> Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).clone()


def plain_gradient(
    model: Qwen2,
    rollout: Rollout,
    part: Tensor,
    ppo_clip: float,
    temperature: float,
    bonus: float = 0.0,
    longest: float = T,
) -> Tensor:
    """The loss as the docstring of `rspo.training.local` states it, one response at a time."""
    model.zero_grad()
    loss, n = torch.zeros(()), rollout.weights.shape[1]
    sampled = int(rollout.responses.lengths.view(-1, n)[part].sum())
    for prompt in part.tolist():
        for index in range(n):
            row = prompt * n + index
            length = int(rollout.responses.lengths[row])
            tokens = rollout.responses.tokens[row, :length]
            sequence = torch.cat((rollout.prompts[prompt], tokens))[None]
            logits = model.logits(model(sequence, KVCache()))[0, 9:-1]
            log_p = (logits / temperature).log_softmax(-1)
            weight = float(rollout.weights[prompt, index])
            old = rollout.responses.log_probs[row, :length].clone()
            ratio = torch.exp(log_p[range(length), tokens.tolist()] - old)
            clipped = torch.clamp(ratio, 1 - ppo_clip, 1 + ppo_clip)
            loss = loss - torch.min(weight * ratio, weight * clipped).sum() / (len(part) * longest)
            entropy = torch.distributions.Categorical(logits=log_p).entropy().sum()
            loss = loss - bonus * entropy / sampled
    loss.backward()
    return gradient(model)


@pytest.mark.parametrize(
    ("objective", "k"),
    [("rspo_pass_at_k", 3), ("hitchhiking", 4), ("grpo", 1), ("rspo_max_at_k", 2)],
)
@pytest.mark.parametrize(("moved", "temperature"), [(False, 1.0), (True, 1.0), (False, 0.6)])
@pytest.mark.parametrize(
    ("clip", "bonus", "drops"), [(0.2, 0.0, True), (0.2, 0.1, True), (math.inf, 0.0, False)]
)
def test_the_update_is_the_stated_loss(
    objective: str, k: int, moved: bool, temperature: float, clip: float, bonus: float, drops: bool
) -> None:
    """Also after updates have moved the policy away from the one that sampled.

    With and without clipping, and without the responses of weight 0; some have the weight 1.
    """
    model = make_model()
    rollout = make_rollout(model, objective, k, temperature=temperature)
    rollout = replace(rollout, weights=rollout.weights / rollout.weights.max())
    if moved:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape) * 0.02)
    part = torch.tensor([1, 2, 4])
    expected = plain_gradient(model, rollout, part, clip, temperature, bonus)
    model.zero_grad()
    clipped = backward(model, rollout, part, T, clip, temperature, bonus, drops)
    assert (clipped > 0) == (moved and clip < 1)
    assert expected.norm() > 0
    assert (gradient(model) - expected).norm() <= 2e-5 * expected.norm()


def test_responses_of_weight_0_count_in_the_bonus_and_not_in_the_clipped_fraction() -> None:
    model = make_model()
    rollout = make_rollout(model, "rspo_pass_at_k", 4)
    part = torch.arange(PROMPTS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.02)
    plain = backward(model, rollout, part, T, 0.2, 1.0)
    assert backward(model, rollout, part, T, 0.2, 1.0, entropy_bonus=0.1) == plain > 0


def test_a_single_token_that_is_clipped_is_all_of_them() -> None:
    model = make_model()
    rollout = make_rollout(model, "rspo_pass_at_k", 4)
    weights = torch.zeros(PROMPTS, N)
    weights[2, 3] = 1.0
    row = 2 * N + 3
    lengths = rollout.responses.lengths.clone()
    lengths[row] = 1
    log_probs = rollout.responses.log_probs.clone()
    log_probs[row, 0] -= 1  # the ratio is e
    responses = replace(rollout.responses, lengths=lengths, log_probs=log_probs)
    rollout = replace(rollout, responses=responses, weights=weights)
    assert backward(model, rollout, torch.arange(PROMPTS), T, 0.2, 1.0) == 1.0


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (None, [4] * 8),
        ((8, 1), [8, 7, 6, 5, 4, 3, 2, 1]),
        ((1, 2), [1, 1, 1, 1, 2, 2, 2, 2]),
    ],
)
def test_k_is_linear_in_the_steps_and_rounded(
    schedule: tuple[int, int] | None, expected: list[int]
) -> None:
    annealed = training(steps=8, k_schedule=schedule)
    assert [annealed.k_at(step, 4) for step in range(8)] == expected
    assert training(steps=1, k_schedule=(8, 1)).k_at(0, 8) == 8


@pytest.mark.parametrize(
    "changes",
    [
        {"k_schedule": [4, 2], "entropy_bonus": 0.1, "epochs": 2},
        {"ppo_clip": None, "loss_aggregation": "token-mean", "epochs": 2},
        {"mini_batch_prompts": 256},
    ],
    ids=str,
)
def test_training_is_algorithm_1_step_by_step(tmp_path: Path, changes: dict[str, object]) -> None:
    """Each step again, with one response at a time and PyTorch's own Adam."""
    sizes = {"steps": 2, "prompts_per_step": 4, "mini_batch_prompts": 2}
    world = tiny_world.load(
        tmp_path,
        training=tiny_world.OVERRIDES["training"] | sizes | changes,
        rewards={"false_accepts": 0.3, "false_rejects": 0.1},
        sampling={"temperature": 0.8},
    )
    config, tokenizer = world.config.training, make_tokenizer(tmp_path)

    def is_correct(texts: list[str], *_: object, **__: object) -> list[Verdict]:
        return [Verdict(CORRECT if text.count("1") % 2 else INCORRECT) for text in texts]

    trainer = Trainer(world.config, world.cell(CELL), make_model(), tokenizer, is_correct)
    trainer.accept = SimulatedErrors(world.config.rewards, 0, tokenizer, {}).accept
    tokens = make_rollout(make_model(), "rspo_pass_at_k", 4).prompts.tolist()
    prompts = Prompts(tokens, [""] * PROMPTS, [["1"]] * PROMPTS, ["linear"] * PROMPTS)
    start, model, options = make_model(), make_model(), config.optimizer
    optimizer = torch.optim.AdamW(
        model.parameters(), betas=options.betas, weight_decay=options.weight_decay
    )
    parts = [*torch.arange(4).split(config.mini_batch_prompts)] * config.epochs
    updates = 0
    for step, record in enumerate(trainer.train(prompts)):
        batch = [tokens[row] for row in prompts_of_step(prompts.families, config, 0, step)]
        responses = sample(
            *(model, batch, 16),
            max_tokens=T,
            end=tokenizer.end,
            pad=tokenizer.pad,
            generator=generator_of(0, "sampling", step),
            temperature=0.8,
        )
        verdicts = is_correct(texts_of(tokens_of(responses), tokenizer))
        correct = np.array([verdict.correct for verdict in verdicts])
        accepted = with_wrong_verdicts(correct, world.config.rewards, 0, step).reshape(4, 16)
        weights = response_weights(accepted.astype(float), "rspo_pass_at_k", config.k_at(step, 4))
        rollout = Rollout(torch.tensor(batch), responses, torch.tensor(weights).float())
        norms, rates = [], []
        for part in parts:
            mean = float(responses.lengths.view(4, 16)[part].double().mean())
            length = mean if config.loss_aggregation == "token-mean" else T
            clip = config.ppo_clip or float("inf")
            gradients = plain_gradient(
                model, rollout, part, clip, 0.8, config.entropy_bonus, length
            )
            norms.append(gradients.norm().item())
            rates.append(trainer.rate * learning_rate_factor(updates / 2 / len(parts), options))
            optimizer.param_groups[0]["lr"] = rates[-1]
            optimizer.step()
            updates += 1
        ours, expected, before = (
            torch.nn.utils.parameters_to_vector(one.parameters())
            for one in (trainer.model, model, start)
        )
        assert (ours - expected).norm() <= 1e-3 * (expected - before).norm()
        assert record["gradient_norm"] == pytest.approx(np.mean(norms), rel=1e-3)
        assert record["learning_rate"] == pytest.approx(np.mean(rates))
        assert (record["correct"], record["reward"]) == (correct.mean(), accepted.mean())
        entropy = responses.entropy[responses.mask].mean().item()
        assert record["entropy"] == pytest.approx(entropy, rel=1e-4)
        assert [*record["seconds"]] == ["sample", "reward", "update"]
        if len(parts) == 1:
            assert record["clipped"] == 0  # the policy that is updated is the one that sampled


@pytest.mark.parametrize(("clip", "fraction"), [(None, 0.0), (5.0, 0.0), (2.5, 0.5), (0.1, 1.0)])
def test_a_record_has_the_fraction_of_updates_whose_gradient_was_clipped(
    clip: float | None, fraction: float
) -> None:
    rollout = make_rollout(make_model(), "rspo_pass_at_k", 3)
    rewards = rollout.rewards.numpy()
    lengths, finished = rollout.responses.lengths, rollout.responses.finished
    scored = Scored.from_columns(lengths, finished, rewards > 0, rewards, rewards)
    updates = [{"gradient_norm": norm, "clipped": 0.25} for norm in (2.0, 3.0)]
    optimizer = training().optimizer.model_copy(update={"gradient_clip": clip})
    record = record_of(0, scored, 1.0, updates, {"sample": 1.0}, optimizer)
    assert record["gradient_clipped"] == fraction
    assert record["clipped"] == 0.25  # of PPO


def backward_without_dropping(model: Qwen2, rollout: Rollout) -> None:
    rows = torch.arange(PROMPTS * N)
    log_p = token_distributions(model, rollout, rows, 1.0)
    objective, _ = clipped_objective(log_p, rollout, rows, 0.2)
    (-objective / (PROMPTS * T)).backward()


@pytest.mark.parametrize("signs", [1, -1], ids=["equal weights", "weights of both signs"])
def test_merging_equal_responses_does_not_change_the_update(signs: int) -> None:
    """Nor the fraction of clipped tokens."""
    model = make_model()
    rollout = make_rollout(model, "rspo_max_at_k", 4, fraction_correct=1.0)
    twice = torch.arange(PROMPTS * N) // 2 * 2  # each response twice
    responses = Responses(*(getattr(rollout.responses, f.name)[twice] for f in fields(Responses)))
    factors = torch.tensor([1, 2 * signs]).repeat(N // 2)
    weights = (rollout.weights + 0.1).flatten()[twice].view(PROMPTS, N) * factors
    rollout = replace(rollout, responses=responses, weights=weights)
    rows, _, _ = merge_equal(rollout, torch.arange(PROMPTS * N))
    assert len(rows) == (PROMPTS * N // 2 if signs == 1 else PROMPTS * N)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.02)
    model.zero_grad()
    rows = torch.arange(PROMPTS * N)
    log_p = token_distributions(model, rollout, rows, 1.0)
    objective, is_clipped = clipped_objective(log_p, rollout, rows, 0.2)
    (-objective / (PROMPTS * T)).backward()
    expected = gradient(model)
    model.zero_grad()
    clipped = backward(model, rollout, torch.arange(PROMPTS), T, 0.2, 1.0)
    assert clipped == pytest.approx(is_clipped.double().mean().item())
    assert (gradient(model) - expected).norm() <= 1e-5 * expected.norm()


def test_a_mini_batch_without_weights_still_moves_by_momentum(tmp_path: Path) -> None:
    """Also the first one after resuming, before any gradient was computed."""
    world = tiny_world.load(tmp_path)
    tokenizer = make_tokenizer(tmp_path)
    moved = []
    for drops in (True, False):
        trainer = Trainer(world.config, world.cell(CELL), make_model(), tokenizer, verify)
        for state in trainer.optimizer.param_groups[0]["params"]:
            trainer.optimizer.state[state] = {
                "step": torch.tensor(5.0),
                "exp_avg": torch.full_like(state, 0.01),
                "exp_avg_sq": torch.full_like(state, 1e-4),
            }
        rollout = make_rollout(trainer.model, "rspo_pass_at_k", 4, fraction_correct=0.0)
        if drops:
            trainer.update(0, rollout, torch.arange(PROMPTS))
        else:
            backward_without_dropping(trainer.model, rollout)
            trainer.optimizer.param_groups[0]["lr"] = trainer.rate
            trainer.optimizer.step()
        moved.append(torch.cat([p.detach().flatten() for p in trainer.model.parameters()]))
    start = torch.cat([p.detach().flatten() for p in make_model().parameters()])
    assert (moved[0] - start).norm() > 0
    torch.testing.assert_close(moved[0], moved[1])


def constant(limits: PassLimits, device: torch.device) -> PassLimits:
    return limits


def test_the_size_of_a_chunk_does_not_change_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    rollout = make_rollout(model, "hitchhiking", 4, fraction_correct=0.9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.02)
    gradients = []
    clipped = []
    for chunk in (5, 1000):
        limits = PassLimits(responses=chunk, logits=2**25)
        monkeypatch.setattr("rspo.training.local.pass_limits", partial(constant, limits))
        model.zero_grad()
        clipped.append(backward(model, rollout, torch.arange(PROMPTS), T, 0.2, 1.0))
        gradients.append(gradient(model))
    assert clipped[0] == clipped[1] > 0
    assert (gradients[0] - gradients[1]).norm() <= 1e-6 * gradients[1].norm()


def test_a_pass_is_bounded_by_its_responses_and_by_tokens_times_vocabulary() -> None:
    limits = PassLimits(responses=4, logits=60)
    rows = torch.tensor([7, 3, 5, 1, 0, 2, 4, 6])
    lengths = [1, 1, 1, 1, 1, 2, 3, 9]
    # 10 logits for each token: a response of 9 tokens is a pass of its own, however large.
    passes = [part.tolist() for part in chunks(rows, lengths, 10, limits)]
    assert passes == [[7, 3, 5, 1], [0, 2], [4], [6]]
    assert [part.tolist() for part in chunks(rows[:1], [9], 10, limits)] == [[7]]
    larger = PassLimits(responses=4, logits=90)
    assert [len(part) for part in chunks(rows, lengths, 10, larger)] == [4, 3, 1]


def test_a_pass_on_a_gpu_is_larger() -> None:
    gpu = pass_limits(torch.device("cuda"))
    processor = pass_limits(torch.device("cpu"))
    assert gpu.responses > processor.responses
    assert gpu.logits > processor.logits
    assert pass_limits(torch.device("mps")) == processor  # was never tried


def training(**changes: object) -> Training:
    optimizer = Optimizer(schedule="linear", warmup_ratio=0.1, betas=(0.9, 0.99), weight_decay=0.0)
    values: dict[str, object] = {
        "steps": 10,
        "prompts_per_step": 10,
        "mini_batch_prompts": 5,
        "loss_aggregation": "seq-mean-token-sum-norm",
        "optimizer": optimizer,
        "ppo_clip": 0.2,
        "checkpoint_every": 5,
        "validation": {"every": None, "problems": 1, "samples": 1},
    }
    return Training.model_validate(values | changes)


def test_learning_rate_warms_up_and_decays_to_zero() -> None:
    factors = [
        learning_rate_factor(done, training().optimizer) for done in (0.0, 0.05, 0.1, 0.55, 1.0)
    ]
    assert factors == pytest.approx([0.0, 0.5, 1.0, 0.5, 0.0])


def test_an_epoch_uses_every_prompt_at_most_once_with_families_in_turn() -> None:
    families = ["a", "b", "c", "d", "e"] * 20
    steps = [prompts_of_step(families, training(), seed=0, step=step) for step in range(10)]
    assert sorted(row for rows in steps for row in rows) == list(range(100))
    for rows in steps:
        assert sorted(families[row] for row in rows) == sorted(["a", "b", "c", "d", "e"] * 2)
    later = prompts_of_step(families, training(), seed=0, step=10)
    assert later != steps[0]  # a new order in the next epoch
    assert later == prompts_of_step(families, training(), seed=0, step=10)


def test_a_training_set_smaller_than_a_batch_is_an_error() -> None:
    with pytest.raises(InputError, match=r"has 9 problems; training.prompts_per_step = 10"):
        prompts_of_step(["a"] * 9, training(), seed=0, step=0)


@pytest.mark.parametrize(
    ("changes", "tokens"),
    [
        ({}, (2 + 5) + (3 + 1)),  # responses of weight 0 are dropped
        ({"epochs": 2}, 2 * ((2 + 5) + (3 + 1))),
        ({"drop_zero_weights": False}, (2 + 5) + (2 + 7) + (3 + 1) + (3 + 1)),
        ({"entropy_bonus": 0.1}, (2 + 5) + (2 + 7) + (3 + 1) + (3 + 1)),
    ],
)
def test_the_utilization_counts_the_tokens_of_the_updates(
    changes: dict[str, float], tokens: int
) -> None:
    """6 operations per parameter and token; prompts of 2 and 3 tokens, with two responses each."""
    trainer = Trainer.__new__(Trainer)
    settings = {"entropy_bonus": 0.0, "drop_zero_weights": True, "epochs": 1} | changes
    trainer.config = SimpleNamespace(training=SimpleNamespace(**settings))
    trainer.model = torch.nn.Linear(3, 4)  # 16 parameters
    batch = SimpleNamespace(tokens=[[1, 2], [1, 2, 3]])
    lengths, weights = torch.tensor([[5, 7], [1, 1]]), torch.tensor([[0.5, 0], [0, -0.1]])
    scored = SimpleNamespace(lengths=lengths, weights=weights)
    found = trainer.utilization(batch, scored, seconds=0.5, peak=1e6)
    assert found == pytest.approx(6 * 16 * tokens / (0.5 * 1e6))


def test_records_have_the_utilization_where_the_peak_is_known(tmp_path: Path) -> None:
    world = tiny_world.load(
        tmp_path,
        training=tiny_world.OVERRIDES["training"] | {"steps": 1, "prompts_per_step": 4},
    )
    tokenizer = make_tokenizer(tmp_path)

    def is_correct(texts: list[str], *_: object, **__: object) -> list[Verdict]:
        return [Verdict(CORRECT if text.count("1") % 2 else INCORRECT) for text in texts]

    tokens = make_rollout(make_model(), "rspo_pass_at_k", 4).prompts.tolist()
    prompts = Prompts(tokens, [""] * PROMPTS, [["1"]] * PROMPTS, ["linear"] * PROMPTS)
    records = []
    for peak in (None, 1e12):
        trainer = Trainer(world.config, world.cell(CELL), make_model(), tokenizer, is_correct)
        trainer.peak = peak
        records.append(next(trainer.train(prompts)))
    without, record = records
    assert "mfu" not in without
    # At most every token of 4 prompts with 16 responses, 6 operations for each parameter.
    parameters = sum(parameter.numel() for parameter in make_model().parameters())
    most = 4 * 16 * (len(tokens[0]) + T)
    updated = record["mfu"] * record["seconds"]["update"] * 1e12 / (6 * parameters)
    assert 0 < updated <= 1.05 * most  # the seconds of the record are rounded
