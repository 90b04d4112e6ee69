"""Refuses settings of verl that would hide a fault, or need a package that is missing.

This module does not import verl, so that every command can check the config at its start.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.settings import leaves

BYPASS = "algorithm.rollout_correction.bypass_mode"
LIGER = "actor_rollout_ref.model.use_liger"


def require_allowed_settings(experiment: Experiment, cell: str) -> None:
    """Refuse settings of verl for a cell, in its model's section or in `verl.overrides`.

    Raises: InputError that names the key and what is allowed.
    """
    experiment = experiment.for_cell(cell)  # with the changes of its variant
    config = experiment.config
    if config.engine != "verl" or config.verl is None:
        return
    model = experiment.cell(cell).model
    layers = {
        f"models.{model}.verl": config.models[model].verl,
        "verl.overrides": config.verl.overrides,
    }
    for origin, layer in layers.items():
        _require_allowed(origin, dict(leaves(layer)))


def _require_allowed(origin: str, values: Mapping[str, Any]) -> None:
    """Raises: InputError for a key of `values` with a value that is not allowed."""
    if values.get(BYPASS, False) is not False:
        raise InputError(
            f"{origin}: {BYPASS} = {values[BYPASS]!r}: the sampler's log-probabilities would "
            "replace the actor's, so that nothing would show a sampler with other weights; "
            "allowed: false"
        )
    if values.get(LIGER, False) is not False and find_spec("liger_kernel") is None:
        raise InputError(
            f"{origin}: {LIGER} = {values[LIGER]!r}: the package liger-kernel is not "
            "installed, and envs/lock/ does not have it; allowed: false"
        )
