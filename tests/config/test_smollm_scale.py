"""config/smollm.yaml: worked examples and held-out problems, and verl's config."""

import re

from rspo.config.experiment import Experiment
from rspo.datasets.generated import FAMILIES, numbers_of
from tests.support import ROOT


def numbers(text: str) -> list[int]:
    return sorted(map(int, re.findall(r"\d+", text)))


def test_worked_examples_are_not_held_out_problems() -> None:
    hub = Experiment.load("smollm", root=ROOT).config.models["smollm2-135m"].hub
    assert hub is not None
    held_out = [
        numbers(FAMILIES[family].describe(*item)[0])
        for family in ("share", "unknown")
        for split in ("validation", "test")
        for item in numbers_of(family, split)
    ]
    assert len(hub.examples) == 2
    for example in hub.examples:
        assert numbers(example.problem) not in held_out


def test_one_key_trains_on_a_gpu() -> None:
    overrides = {"verl": {"device": "cuda", "ranks_per_node": 1}}
    experiment = Experiment.load("smollm", overrides, root=ROOT)
    assert experiment.trains_on_gpus
