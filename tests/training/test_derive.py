"""Policies without a training of their own: averages of weights, and other temperatures."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rspo.cli import main
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import SAMPLES, read_frame
from rspo.datasets.prepare import prepare
from rspo.evaluation.sample import sample_suite
from rspo.pipeline import tasks
from rspo.pipeline.provenance import read_provenance
from rspo.pipeline.state import is_good
from rspo.training.derive import derive
from rspo.training.logs import read_log
from rspo.training.pretraining import make_base_policy
from rspo.training.train import train
from tests.support import tiny_world

NAMES = ["default", "averaged", "averaged-short", "cold", "short", "stopped"]
VARIANTS = {
    "averaged": {"derived": {"base_share": 0.25}},
    "averaged-short": {"derived": {"base_share": 0.5, "variant": "short"}},
    "cold": {"evaluation": {"temperature": 0.25}},
    "short": {"training": {"steps": 3}},
    "stopped": {"training": {"stop_after": 4}},
}
STUDY: dict[str, Any] = {
    "title": "Remedies",
    "suite": "standard",
    "contrasts": [{"family": "remedies", "minus": "default"}],
    "cells": [{"model": "small", "objective": "policy_gradient", "n": 4, "variant": NAMES}],
}


def cell(variant: str, seed: int = 0) -> str:
    part = "" if variant == "default" else f"--{variant}"
    return f"small--policy-gradient--k1--n4{part}--s{seed}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Two seeds, each with a base policy of its own, and their default cells."""
    root = tmp_path_factory.mktemp("world")
    studies = {"remedies": STUDY | {"seeds": 2}}
    experiment = tiny_world.load(root, base_per_seed=True, studies=studies, variants=VARIANTS)
    for data_set in ("train", "validation", *experiment.benchmarks_of("standard")):
        prepare(experiment, data_set)
    for base in ("small", "small--s1"):
        make_base_policy(experiment, base)
    for name in (cell("default"), cell("default", 1), cell("short")):
        train(experiment, name)
    return experiment


def weights(experiment: Experiment, policy: str) -> dict[str, torch.Tensor]:
    return load_file(experiment.files.policy(policy) / "model.safetensors")


def test_each_seed_starts_from_a_base_policy_of_its_own(world: Experiment) -> None:
    assert world.bases_of("remedies") == ["small--base", "small--s1--base"]
    first, second = (weights(world, base) for base in world.bases_of("remedies"))
    assert any(not torch.equal(first[name], second[name]) for name in first)
    for seed, base in enumerate(world.bases_of("remedies")):
        name = cell("default", seed)
        inputs = read_provenance(world.files.policy(name))["inputs"]
        assert {Path(path).parent.name for path in inputs} >= {base}
        assert is_good(tasks.train(world, name))


def test_the_base_policy_of_a_seed_has_the_seed_of_the_models_pretraining_plus_it(
    world: Experiment,
) -> None:
    scratch = [tasks.pretrain(world, name).settings["scratch"] for name in ("small", "small--s3")]
    assert [one.pop("seed") for one in scratch] == [0, 3]
    assert scratch[0] == scratch[1]
    with pytest.raises(InputError, match="small--s01"):
        tasks.pretrain(world, "small--s01")


def test_settings_of_the_first_seed_do_not_name_its_base_policy(world: Experiment) -> None:
    """So that a training from before the key was added is still good."""
    first, second = (tasks.train(world, cell("default", seed)).settings for seed in (0, 1))
    assert "base" not in first
    assert second["base"] == "small--s1--base"


@pytest.mark.parametrize(
    ("variant", "source", "share"),
    [("averaged", "default", 0.25), ("averaged-short", "short", 0.5)],
)
def test_an_average_has_the_mean_of_the_weights(
    world: Experiment, variant: str, source: str, share: float
) -> None:
    derive(world, cell(variant))
    found = weights(world, cell(variant))
    trained, base = weights(world, cell(source)), weights(world, "small--base")
    assert found.keys() == trained.keys()
    for name, tensor in found.items():
        expected = trained[name].double() * (1 - share) + base[name].double() * share
        torch.testing.assert_close(tensor.double(), expected, rtol=0, atol=1e-6)
    assert is_good(tasks.derive(world, cell(variant)))


def test_an_average_is_of_the_base_policy_of_its_seed(world: Experiment) -> None:
    derive(world, cell("averaged", 1))
    found, trained = weights(world, cell("averaged", 1)), weights(world, cell("default", 1))
    base = weights(world, "small--s1--base")
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, 0.75 * trained[name] + 0.25 * base[name])


def test_another_temperature_samples_the_same_weights(world: Experiment) -> None:
    """At a low temperature, responses to a prompt are more often equal."""
    derive(world, cell("cold"))
    for name, tensor in weights(world, cell("cold")).items():
        assert torch.equal(tensor, weights(world, cell("default"))[name])
    different = {}
    for variant in ("default", "cold"):
        sample_suite(world, cell(variant), "standard")
        samples = read_frame(world.files.samples(cell(variant), "standard", 0), SAMPLES)
        different[variant] = samples.groupby("problem_id")["text"].nunique().mean()
    assert different["cold"] < different["default"] - 0.5
    assert tasks.sample(world, cell("cold"), "standard", 0).settings["temperature"] == 0.25
    assert tasks.sample(world, cell("default"), "standard", 0).settings["temperature"] == 1.0


def test_a_training_that_stops_early_is_the_beginning_of_the_whole_one(world: Experiment) -> None:
    """With the schedule of all steps: each logged number is the same."""
    train(world, cell("stopped"))
    stopped, whole = (read_log(world, cell(variant)) for variant in ("stopped", "default"))
    assert len(stopped) == 4
    for ours, theirs in zip(stopped, whole, strict=False):
        for record in (ours, theirs):
            del record["seconds"]
            del record["tokens_per_second"]
        assert ours == theirs


def test_a_derived_cell_is_not_trained_and_a_trained_one_not_derived(world: Experiment) -> None:
    with pytest.raises(InputError, match="has no training: `rspo derive"):
        train(world, cell("averaged"))
    with pytest.raises(InputError, match="is trained: `rspo train"):
        derive(world, cell("short"))


def test_the_command_derives(
    world: Experiment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.root)
    assert main(["derive", cell("averaged"), "--force"]) == 0
    assert main(["derive", cell("short")]) == 2
    assert "rspo train" in capsys.readouterr().err


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"averaged": {"derived": {"base_share": 1.5}}}, "variants.averaged.derived.base_share"),
    ({"averaged": {"derived": {"share": 0.5}}}, "unknown key share"),
    ({"averaged": {"derived": {}, "training": {"steps": 3}}}, "variants.averaged: a variant with"),
    ({"cold": {"evaluation": {"samples": 3}}}, "variants.cold.evaluation.samples: a variant may"),
    ({"stopped": {"training": {"stop_after": 400}}}, "stop_after = 400; allowed: up to steps"),
]


def of_variant(root: Path, changes: dict[str, Any]) -> Experiment:
    """The experiment with the settings of a variant."""
    studies = {"remedies": STUDY}
    experiment = tiny_world.load(root, studies=studies, variants=VARIANTS | changes)
    return experiment.for_cell(cell("stopped"))


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_a_wrong_variant_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        of_variant(tmp_path, changes)
    assert message in str(caught.value)


def test_an_average_of_a_cell_that_the_config_lacks_is_named(tmp_path: Path) -> None:
    cells = [STUDY["cells"][0] | {"variant": ["default", "averaged-short"]}]
    studies = {"remedies": STUDY | {"cells": cells}}
    experiment = tiny_world.load(tmp_path, studies=studies, variants=VARIANTS)
    with pytest.raises(InputError, match="which must be a trained cell"):
        tasks.derive(experiment, cell("averaged-short"))
