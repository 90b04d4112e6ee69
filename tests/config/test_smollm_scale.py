"""tests/gpu/config/smollm.yaml: worked examples and held-out problems."""

import re

from rspo.config.experiment import Experiment
from rspo.datasets.generated import FAMILIES, numbers_of
from tests.support import ROOT


def numbers(text: str) -> list[int]:
    return sorted(map(int, re.findall(r"\d+", text)))


def test_worked_examples_are_no_problems_of_any_split() -> None:
    hub = Experiment.load("smollm", root=ROOT / "tests" / "gpu").config.models["smollm2-135m"].hub
    assert hub is not None
    problems = [
        numbers(FAMILIES[family].describe(*item)[0])
        for family in ("share", "unknown")
        for split in ("train", "validation", "test")
        for item in numbers_of(family, split)
    ]
    assert len(hub.examples) == 2
    for example in hub.examples:
        assert numbers(example.problem) not in problems


def test_every_split_has_the_requested_problems() -> None:
    for name, data_set in Experiment.load("smollm", root=ROOT / "tests" / "gpu").data_sets.items():
        assert data_set.generated is not None
        for family in data_set.generated.families:
            available = len(numbers_of(family, data_set.generated.split))
            assert data_set.generated.problems <= available, (name, family)
