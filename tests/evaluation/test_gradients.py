"""`rspo gradients`: what it estimates, against gradients taken one by one and by enumeration."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.config.schema import Gradients
from rspo.core.errors import InputError
from rspo.core.files import fingerprint
from rspo.core.tables import GRADIENTS, read_table
from rspo.evaluation.gradients import moments, response_gradients, write_gradients
from rspo.figures.gradient_variance import ratio_of_means
from rspo.objectives import compared, response_weights
from rspo.policies.qwen2 import ModelConfig, Qwen2, response_logits
from tests.support import ROOT, tiny_world


def small_model() -> Qwen2:
    config = ModelConfig(
        vocab_size=11,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=24,
        max_position_embeddings=16,
    )
    model = Qwen2(config)
    model.initialise(0.3, torch.Generator().manual_seed(3))
    return model.double()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_gradients_of_responses_are_those_taken_one_by_one(temperature: float) -> None:
    model, generator = small_model(), torch.Generator().manual_seed(5)
    prompt = torch.randint(11, (4,), generator=generator)
    tokens = torch.randint(11, (70, 6), generator=generator)  # more than one chunk
    lengths = torch.randint(1, 7, (70,), generator=generator)
    mask = torch.arange(6) < lengths[:, None]
    found = response_gradients(model, prompt, tokens, mask, temperature)
    for row in range(len(tokens)):
        length = int(lengths[row])
        logits = response_logits(
            model, prompt[None], torch.zeros(1, dtype=torch.long), tokens[row : row + 1, :length]
        )[0]
        log_probs = (logits / temperature).log_softmax(dim=-1)
        total = log_probs[torch.arange(length), tokens[row, :length]].sum()
        one = torch.autograd.grad(total, list(model.parameters()))
        expected = torch.cat([part.flatten() for part in one])
        assert torch.allclose(found[row], expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize(
    ("objective", "k"), [("rspo_pass_at_k", 2), ("hitchhiking", 2), ("grpo", 1)]
)
def test_the_estimates_are_unbiased_by_all_draws(objective: str, k: int) -> None:
    """A prompt with three possible responses, groups of two: every sample of six, exactly."""
    scores = np.array([[1.0, 0.5], [-0.5, 2.0], [0.3, -1.0]])
    right, chance = np.array([1.0, 0.0, 1.0]), np.array([0.2, 0.5, 0.3])
    n, samples = 2, 4

    def expectation(count: int, value) -> float:  # type: ignore[no-untyped-def]
        draws = itertools.product(range(3), repeat=count)
        return sum(np.prod(chance[list(draw)]) * value(list(draw)) for draw in draws)

    def gradient(draw: list[int]) -> np.ndarray:
        return response_weights(right[draw], objective, k) @ scores[draw]

    mean = np.array([expectation(n, lambda draw, a=axis: gradient(draw)[a]) for axis in (0, 1)])
    square = expectation(n, lambda draw: float(gradient(draw) @ gradient(draw)))
    cuts = np.array([[[0, 1], [2, 3]], [[2, 0], [3, 1]]])

    def estimates(draw: list[int]) -> tuple[float, float]:
        products = torch.from_numpy(scores[draw] @ scores[draw].T)
        return moments(products, right[draw], cuts, objective, k)

    variance = expectation(samples, lambda draw: estimates(draw)[0])
    signal = expectation(samples, lambda draw: estimates(draw)[1])
    assert signal == pytest.approx(mean @ mean)
    assert variance == pytest.approx(square - mean @ mean)


def test_the_interval_of_a_ratio_holds_the_truth_about_95_times_in_100() -> None:
    draw, held = np.random.default_rng(4), 0
    for _ in range(1000):
        below = draw.gamma(3.0, size=60)
        above = below * draw.gamma(4.0, 0.5, size=60)  # ratio of the means: 2
        _, low, high = ratio_of_means(above.tolist(), below.tolist())
        held += low <= 2 <= high
    assert 910 <= held <= 970


SETTINGS = {"prompts": 5, "responses": 32, "n": 8, "k": [2, 4], "groupings": 2}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return tiny_world.load_prepared(tmp_path_factory.mktemp("gradients"), gradients=SETTINGS)


def test_gradients_are_measured_for_every_objective_and_are_the_same_again(
    world: Experiment,
) -> None:
    path = world.gradients("small--base")
    write_gradients(world, "small--base")
    rows, before = read_table(path, GRADIENTS), path.read_bytes()
    assert world.config.gradients is not None
    pairs = world.config.gradients.measured
    assert [(row["objective"], row["k"]) for row in rows] == pairs * 5
    assert {objective for objective, _ in pairs} == {*compared()}
    assert {(row["n"], row["responses"]) for row in rows} == {(8, 32)}
    assert all(np.isfinite([row["variance"], row["signal"]]).all() for row in rows)
    write_gradients(world, "small--base")
    assert path.read_bytes() == before
    note = json.loads(path.with_name(path.name + ".provenance.json").read_text())
    assert note["settings_hash"] == fingerprint(steps.gradients(world, "small--base").settings)


def test_too_few_training_prompts_are_an_error(world: Experiment) -> None:
    overrides = tiny_world.OVERRIDES | {"gradients": SETTINGS | {"prompts": 1000}}
    experiment = Experiment.load("tiny", overrides, world.results.parent.parent)
    with pytest.raises(InputError, match=r"gradients.prompts = 1000: .* has only 60 problems"):
        write_gradients(experiment, "small--base", force=True)


def test_a_scale_without_the_section_says_so(tmp_path: Path) -> None:
    experiment = Experiment.load("paper", root=ROOT)
    with pytest.raises(InputError, match=r"config/paper.yaml has no section gradients"):
        write_gradients(experiment, "qwen2.5-math-1.5b--base")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"responses": 30}, "responses = 30 must be a multiple of n = 8, at least twice"),
        ({"responses": 8}, "responses = 8 must be a multiple of n = 8, at least twice"),
        ({"k": [3]}, "k = 3 must divide n = 8"),
    ],
)
def test_settings_that_cannot_be_measured(change: dict[str, object], message: str) -> None:
    values = SETTINGS | {"policies": ["small--base"], "seed": 0} | change
    with pytest.raises(ValueError, match=message):
        Gradients.model_validate(values)
