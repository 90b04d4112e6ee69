"""`policy_loss` is its formula; the example trains with it."""

import math
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from rspo.objectives import policy_loss, response_weights
from tests.support import ROOT

P, N, TOKENS, T = 3, 4, 5, 8


def inputs(seed: int = 0) -> dict[str, Any]:
    """Random responses of 1 to TOKENS tokens, with weights of both signs and some of 0."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, TOKENS + 1, (P, N, 1), generator=draw)
    log_probs = -torch.rand(P, N, TOKENS, generator=draw, dtype=torch.float64)
    moved = 0.5 * torch.randn(P, N, TOKENS, generator=draw, dtype=torch.float64)
    weights = torch.randint(-2, 3, (P, N), generator=draw).double() / 4
    return {
        "log_probs": log_probs.requires_grad_(),
        "mask": torch.arange(TOKENS) < lengths,
        "weights": weights,
        "old_log_probs": (log_probs.detach() + moved).clamp(max=0),
    }


def by_loops(given: dict[str, Any], clip: float | None) -> float:
    """The formula, token by token in Python; without `clip` that of the unclipped loss."""
    total = 0.0
    for x in range(P):
        for i in range(N):
            w = float(given["weights"][x, i])
            for t in range(TOKENS):
                if not given["mask"][x, i, t]:
                    continue
                log_p = given["log_probs"][x, i, t].item()
                if clip is None:
                    total += w * log_p
                else:
                    ratio = math.exp(log_p - float(given["old_log_probs"][x, i, t]))
                    total += min(w * ratio, w * max(1 - clip, min(1 + clip, ratio)))
    return -total / (P * T)


def unclipped(given: dict[str, Any]) -> torch.Tensor:
    return policy_loss(given["log_probs"], given["mask"], given["weights"], max_tokens=T)


@pytest.mark.parametrize("seed", range(5))
def test_the_loss_is_its_formula(seed: int) -> None:
    given = inputs(seed)
    assert unclipped(given).item() == pytest.approx(by_loops(given, None))
    for clip in (0.1, 0.5):
        loss = policy_loss(**given, max_tokens=T, clip=clip)
        assert loss.shape == ()
        assert loss.item() == pytest.approx(by_loops(given, clip))


def test_the_gradient_is_the_weight_of_each_token() -> None:
    given = inputs()
    unclipped(given).backward()
    expected = -given["weights"][..., None] * given["mask"] / (P * T)
    torch.testing.assert_close(given["log_probs"].grad, expected)


def test_with_the_policy_that_sampled_ppo_has_the_same_gradient() -> None:
    given = inputs()
    (plain,) = torch.autograd.grad(unclipped(given), given["log_probs"])
    given["old_log_probs"] = given["log_probs"]  # its gradient is stopped
    (ppo,) = torch.autograd.grad(policy_loss(**given, max_tokens=T), given["log_probs"])
    torch.testing.assert_close(ppo, plain)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_padding_has_no_effect(value: float) -> None:
    given = inputs()
    clean = unclipped(given), policy_loss(**given, max_tokens=T)
    for name in ("log_probs", "old_log_probs"):
        given[name] = given[name].detach().masked_fill(~given["mask"], value)
    given["log_probs"].requires_grad_()
    dirty = unclipped(given), policy_loss(**given, max_tokens=T)
    assert dirty == clean
    (gradient,) = torch.autograd.grad(dirty[1], given["log_probs"])
    assert (gradient[~given["mask"]] == 0).all()
    assert gradient.isfinite().all()


def test_half_precision_is_summed_in_float32() -> None:
    log_probs = torch.full((1, 1, 4096), -1.0, dtype=torch.bfloat16)
    loss = policy_loss(log_probs, torch.ones(1, 1, 4096), torch.ones(1, 1), max_tokens=1)
    assert (loss.dtype, loss.item()) == (torch.float32, 4096)
    longest = policy_loss(log_probs, torch.ones(1, 1, 4096), torch.ones(1, 1), max_tokens=4096)
    assert longest.item() == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": torch.ones(N, P)}, r"weights must be \(3, 4\), as log_probs .*got \(4, 3\)"),
        ({"mask": torch.ones(P, N)}, r"mask must be \(3, 4, 5\).*got \(3, 4\)"),
        ({"old_log_probs": torch.ones(P, N, 1)}, r"old_log_probs must be \(3, 4, 5\)"),
        (
            {"log_probs": torch.ones(P, N)},
            r"log_probs must be \(prompts, n, tokens\), got \(3, 4\)",
        ),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0"),
        ({"max_tokens": TOKENS - 1}, "max_tokens = 4; a response has 5 tokens in the mask"),
        ({"clip": 1.5}, "clip must be between 0 and 1, got 1.5"),
        ({"log_probs": torch.full((P, N, TOKENS), 0.7)}, "log_probs must be at most 0, got 0.7"),
        ({"old_log_probs": torch.full((P, N, TOKENS), 0.7)}, "old_log_probs must be at most 0"),
        ({"log_probs": torch.full((P, N, TOKENS), torch.nan)}, "log_probs must be finite"),
        ({"weights": torch.full((P, N), torch.nan)}, "weights must be finite"),
        ({"mask": torch.full((P, N, TOKENS), -100)}, "mask must be 0 or 1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        policy_loss(**(inputs() | {"max_tokens": T} | change))


@pytest.mark.promise("loss = policy_loss(log_probs, mask, weights, max_tokens=1024)")
def test_the_code_of_the_readme_runs() -> None:
    section = (ROOT / "README.md").read_text().partition("## In your own trainer")[2]
    block = re.search(r"\n\n((?: {4}.*\n|\n)+)", section)
    assert block is not None
    given = {**inputs(), "rewards": np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]])}
    exec(re.sub(r"^ {4}", "", block[1], flags=re.MULTILINE), given)
    weights = response_weights(given["rewards"], "rspo_pass_at_k", k=4)
    expected = policy_loss(given["log_probs"], given["mask"], weights, max_tokens=1024)
    assert given["loss"].item() == expected.item()
    assert given["log_probs"].grad is not None


def test_the_example_trains_rspo_to_a_higher_pass_at_4_than_policy_gradient() -> None:
    """The optimum for Pass@4 has 0.628; always the most common arm has 0.36."""
    program = ROOT / "examples" / "bandit.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "policy gradient            Pass@1 = 0.36, Pass@4 = 0.36",
        "RSPO for Pass@4            Pass@1 = 0.26, Pass@4 = 0.63",
    ]
    documented = program.read_text().partition('"""')[2].partition('"""')[0]
    for line in done.stdout.splitlines():
        assert line in documented
