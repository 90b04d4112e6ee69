"""docs/slurm.md: the overrides of a rehearsal, and what a rehearsal without GPUs cannot show."""

from pathlib import Path
from typing import Any

import yaml

from rspo.config.merge import parse_overrides
from rspo.training.verl.verl_config import verl_config
from tests.support import ROOT, paper_scale, rehearsal

SECTION = "actor_rollout_ref"


def changes(*arrays: str) -> dict[str, Any]:
    return parse_overrides([word for name in arrays for word in rehearsal.overrides(name)])


def value(section: Any, key: str) -> Any:
    for part in key.split("."):
        section = section[part]
    return section


def leaves(section: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by their dotted keys."""
    result: dict[str, Any] = {}
    for name, inner in section.items():
        if isinstance(inner, dict) and inner:
            result |= leaves(inner, f"{prefix}{name}.")
        else:
            result[f"{prefix}{name}"] = inner
    return result


def is_named(key: str, names: list[str]) -> bool:
    return any(f"{key}.".startswith(f"{name}.") for name in names)


def test_a_rehearsal_with_gpus_changes_sizes_only(tmp_path: Path) -> None:
    sizes = changes("sizes")
    assert set(sizes) == {"training", "evaluation", "grid"}
    rehearsed, real = paper_scale.load(tmp_path, **sizes), paper_scale.load(tmp_path)
    assert set(rehearsed.config.grid) == set(real.config.grid)


def test_each_key_of_cuda_yaml_is_rehearsed_or_listed(tmp_path: Path) -> None:
    """A key is rehearsed if verl gets the same value, and the servers of a CPU read the key."""
    experiment = paper_scale.load(tmp_path, **changes("sizes", "without_gpus"))
    real = yaml.safe_load((ROOT / "rspo" / "training" / "verl" / "cuda.yaml").read_text())
    names = [name for name, cell in experiment.cells.items() if "1.5b" in cell.model]
    rehearsed = verl_config(experiment, names[-1])
    listed = [f"{SECTION}.{key}" for key in rehearsal.listed("rspo/training/verl/cuda.yaml")]
    for key, wanted in leaves(real).items():
        reached = value(rehearsed, key) == wanted and not key.startswith(f"{SECTION}.rollout.")
        assert reached != is_named(key, listed), key
    assert all(any(is_named(key, [name]) for key in leaves(real)) for name in listed)


def test_each_override_of_the_papers_config_is_listed() -> None:
    """And the keys that have no effect on a CPU or with other weights."""
    listed = rehearsal.listed("config/paper.yaml")
    changed = leaves(changes("sizes", "without_gpus"))
    keys = list(changed) + ["xverify.model", "xverify.training_gpu_memory"]
    assert [key for key in keys if not is_named(key, listed)] == []
    assert [name for name in listed if not any(is_named(key, [name]) for key in keys)] == []
