"""docs/slurm.md: the overrides of a rehearsal, and what a rehearsal without GPUs cannot show."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rspo.cli import parse_overrides
from rspo.config.experiment import Experiment
from rspo.training.verl.verl_config import _leaves, verl_config
from tests.support import ROOT, paper_scale, rehearsal

SECTION = "actor_rollout_ref"


def of(*arrays: str) -> dict[str, Any]:
    return parse_overrides([word for name in arrays for word in rehearsal.overrides(name)])


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """The rehearsal without GPUs."""
    return paper_scale.load(tmp_path, **of("sizes", "without_gpus"))


def value(section: dict[str, Any], key: str) -> Any:
    for part in key.split("."):
        section = section[part]
    return section


def leaves(section: dict[str, Any]) -> dict[str, Any]:
    return dict(_leaves(section))


def is_named(key: str, names: list[str]) -> bool:
    return any(f"{key}.".startswith(f"{name}.") for name in names)


@pytest.mark.parametrize("arrays", [["sizes"], ["sizes", "without_gpus"]])
def test_verl_accepts_every_cell_of_a_rehearsal(tmp_path: Path, arrays: list[str]) -> None:
    experiment = paper_scale.load(tmp_path, **of(*arrays))
    for name, cell in experiment.cells.items():
        assert verl_config(experiment, name).actor_rollout_ref.rollout.n == cell.n == 4
    assert {cell.model for cell in experiment.cells.values()} == set(experiment.config.models)


def test_a_rehearsal_with_gpus_changes_sizes_only(tmp_path: Path) -> None:
    changed = of("sizes")
    assert set(changed) == {"training", "evaluation", "grid"}
    experiment = paper_scale.load(tmp_path, **changed)
    assert set(experiment.config.grid) == set(paper_scale.load(tmp_path).config.grid)


def test_each_key_of_cuda_yaml_is_rehearsed_or_listed(experiment: Experiment) -> None:
    """A key is rehearsed if verl gets the same value, and the servers of a CPU read the key."""
    real = yaml.safe_load((ROOT / "rspo" / "training" / "verl" / "cuda.yaml").read_text())
    (name,) = [
        name
        for name, cell in experiment.cells.items()
        if cell.objective != "policy_gradient" and "1.5b" in cell.model
    ]
    rehearsed = verl_config(experiment, name)
    listed = [f"{SECTION}.{key}" for key in rehearsal.listed("rspo/training/verl/cuda.yaml")]
    for key, wanted in leaves(real).items():
        reached = value(rehearsed, key) == wanted and not key.startswith(f"{SECTION}.rollout.")
        assert reached != is_named(key, listed), key
    assert all(any(is_named(key, [name]) for key in leaves(real)) for name in listed)


def test_each_override_of_the_papers_config_is_listed() -> None:
    """And the keys that have no effect on a CPU or with other weights."""
    listed = rehearsal.listed("config/paper.yaml")
    changed = of("sizes", "without_gpus")
    keys = [*leaves(changed), "xverify.model", "xverify.training_gpu_memory"]
    assert [key for key in keys if not is_named(key, listed)] == []
    assert [name for name in listed if not any(is_named(key, [name]) for key in keys)] == []
