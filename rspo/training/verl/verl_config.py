"""Makes verl's complete config of a cell.

It merges these layers, of which the later ones win: verl's defaults; `cpu.yaml` or `cuda.yaml`
beside this file, for the device; `common.yaml` and `cell_settings`; the model's key `verl`; and the
scale's `verl.overrides`. A key that verl does not have is an error, and so is a key in the last two
layers that would have no effect.
"""

import copy
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rspo.adapters.verl_advantages import K_KEY, estimator_name
from rspo.config.experiment import Cell, Experiment, base_name
from rspo.config.schema import Config, VerlSettings
from rspo.core.errors import InputError
from rspo.core.settings import leaves
from rspo.training.verl.section import section_of

NO_CLIP = 1.0e6  # verl's clip_ratio for `ppo_clip: null`: no ratio of probabilities reaches it

# Keys of this package, Ray and transformers that verl's config lacks, with their defaults.
_ADDED_KEYS: dict[str, Any] = {
    "rspo": {},
    "data": {"rspo": "${rspo}"},
    "algorithm": {K_KEY: 1},
    "actor_rollout_ref": {
        "actor": {
            "optim": {"schedule": "constant"},
            "fsdp_config": {
                "mixed_precision": {"param_dtype": None, "reduce_dtype": None, "buffer_dtype": None}
            },
        },
    },
    "ray_kwargs": {"ray_init": {"num_gpus": None, "include_dashboard": None}},
}
# Sections with keys of another library, which verl's config does not list.
_OPEN_SECTIONS = (
    "rspo",
    "ray_kwargs.ray_init",
    "actor_rollout_ref.model.override_config",
    "actor_rollout_ref.rollout.engine_kwargs.vllm",
)

# Keys and sections that a user must not set, because they would have no effect, and what to do
# instead or why. `_require_effect` adds those of common.yaml and `cell_settings`.
_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_SET_BY_THIS_PACKAGE = "this package sets it from its own config (docs/verl.md)"
_WITHOUT_EFFECT = {
    "algorithm.rollout_correction": "this section has an effect through bypass_mode only",
    "algorithm": "the cell's objective sets it",
    f"{_ROLLOUT}.prompt_length": "set sampling.max_prompt_tokens",
    f"{_ROLLOUT}.response_length": "set sampling.max_response_tokens",
    f"{_ROLLOUT}.val_kwargs": "set training.validation",
    f"{_ROLLOUT}.disaggregation": "each server both reads prompts and samples",
    f"{_ACTOR}.ppo_epochs": "each mini-batch is one update",
    f"{_ACTOR}.shuffle": "mini-batches keep the order of the step's prompts",
    f"{_ACTOR}.calculate_entropy": "training.jsonl has the entropy",
    f"{_ACTOR}.use_torch_compile": f"set {_ACTOR}.fsdp_config.use_torch_compile",
    f"{_ACTOR}.optim.lr_scheduler_type": "set training.optimizer",
    f"{_ACTOR}.optim.lr_warmup_steps": "set training.optimizer",
    f"{_ACTOR}.optim.warmup_style": "set training.optimizer",
    f"{_ACTOR}.optim.min_lr_ratio": "set training.optimizer",
    f"{_ACTOR}.optim.num_cycles": "set training.optimizer",
    "trainer.ray_wait_register_center_timeout": "verl's trainer does not read it",
}
# Type of verl's value -> the types that may replace it, and their name in a message.
_BOOLEAN: tuple[set[type], str] = ({bool}, "true or false")
_NUMBER: tuple[set[type], str] = ({int, float}, "a number")
_TYPES = {bool: _BOOLEAN, int: _NUMBER, float: _NUMBER}
# Exceptions: keys that a user may set, although a section above contains them or this package sets
# them.
_WITH_EFFECT = {
    "algorithm.rollout_correction.bypass_mode",
    "data.dataloader_num_workers",
    "trainer.logger",
    "trainer.project_name",
    "trainer.experiment_name",
    "ray_kwargs.ray_init.num_gpus",
}


def verl_config(experiment: Experiment, name: str) -> DictConfig:
    """The config of a cell's training, checked by verl."""
    cell = experiment.cell(name)
    settings = experiment.config.verl
    assert settings is not None  # by the config's check
    _require_divisible(experiment.config, cell, settings)
    folder = Path(__file__).parent
    device = OmegaConf.load(folder / f"{settings.device}.yaml")
    common = OmegaConf.load(folder / "common.yaml")
    fixed = OmegaConf.merge(common, cell_settings(experiment, cell, settings))
    config = copy.deepcopy(_verl_defaults())  # they are cached, and merging changes the config
    config.merge_with(device, fixed)
    layers = {
        f"models.{cell.model}.verl": experiment.config.models[cell.model].verl,
        "verl.overrides": settings.overrides,
    }
    for origin, layer in layers.items():
        _require_effect(layer, origin, fixed)
        _require_types(config, layer, origin)
        _merge(config, layer, origin)
    _let_verl_check(config)
    return config


def cell_settings(experiment: Experiment, cell: Cell, settings: VerlSettings) -> dict[str, Any]:
    """The settings of the cell and its scale, under verl's keys."""
    config = experiment.config
    training = config.training
    sampling = config.sampling
    optimizer = training.optimizer
    updates = training.prompts_per_step // training.prompts_per_update
    return {
        "rspo": section_of(experiment, cell.name),
        "data": {
            "train_files": str(experiment.files.problems("train").absolute()),
            "train_batch_size": training.prompts_per_step,
            "max_prompt_length": sampling.max_prompt_tokens,
            "max_response_length": sampling.max_response_tokens,
        },
        "algorithm": {"adv_estimator": estimator_name(cell.objective), K_KEY: cell.k},
        "actor_rollout_ref": {
            "model": {"path": str(experiment.files.policy(base_name(cell.model)).absolute())},
            "actor": {
                "ppo_mini_batch_size": training.prompts_per_update,
                "clip_ratio": training.ppo_clip or NO_CLIP,
                "clip_ratio_low": training.ppo_clip or NO_CLIP,
                "clip_ratio_high": training.ppo_clip or NO_CLIP,
                "loss_agg_mode": training.loss_aggregation,
                "loss_scale_factor": sampling.max_response_tokens,
                "entropy_coeff": training.entropy_bonus,
                "optim": {
                    "lr": config.models[cell.model].learning_rate,
                    "lr_warmup_steps_ratio": optimizer.warmup_ratio,
                    "schedule": optimizer.schedule,
                    "betas": list(optimizer.betas),
                    "weight_decay": optimizer.weight_decay,
                    "clip_grad": optimizer.gradient_clip or float("inf"),
                    "total_training_steps": training.steps * updates,
                },
            },
            "rollout": {
                "n": cell.n,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "seed": cell.seed,
                "max_model_len": sampling.max_prompt_tokens + sampling.max_response_tokens,
            },
        },
        "trainer": {
            "logger": [],  # training.jsonl is written by this package
            "experiment_name": cell.name,
            "n_gpus_per_node": settings.ranks,
            "device": settings.device,
            "total_training_steps": training.steps,
            "save_freq": training.checkpoint_every,
            "default_local_dir": str(experiment.files.checkpoint(cell.name).absolute()),
        },
        "ray_kwargs": {
            # On CPUs, Ray's GPUs are logical: one slot per rank. On GPUs, Ray counts them.
            "ray_init": {"num_gpus": settings.ranks if settings.device == "cpu" else None}
        },
    }


def _require_divisible(config: Config, cell: Cell, settings: VerlSettings) -> None:
    """Raises: InputError if the responses of a mini-batch cannot be split equally among ranks."""
    prompts = config.training.prompts_per_update
    responses = prompts * cell.n
    if responses % settings.ranks:
        raise InputError(
            f"{cell.name}: a mini-batch of {prompts} prompts with "
            f"{cell.n} responses cannot be split equally among {settings.ranks} ranks; allowed: "
            f"numbers of ranks that divide {responses}"
        )


def _require_effect(layer: Mapping[str, Any], origin: str, fixed: DictConfig) -> None:
    """Raises: InputError for a key that has no effect, or that this package sets (`fixed`)."""
    without_effect = dict(_WITHOUT_EFFECT)
    for key, _ in leaves(fixed):
        without_effect[key] = _SET_BY_THIS_PACKAGE
    for key, _ in leaves(layer):
        for section, instead in without_effect.items():
            # With the dots, the section "a.b" contains "a.b" and "a.b.c", but not "a.bc".
            if f"{key}.".startswith(f"{section}.") and key not in _WITH_EFFECT:
                raise InputError(f"{origin}: {key} would have no effect: {instead}")


def _require_types(config: DictConfig, layer: Mapping[str, Any], origin: str) -> None:
    """Raises: InputError if verl's value is a number or a boolean, and the new value is not.

    Without this check, verl would fail later, with a message that names no key, or would take the
    text "no" for true.
    """
    for key, value in leaves(layer):
        try:
            default = OmegaConf.select(config, key)
        except OmegaConfBaseException:  # no such key, which `_merge` reports
            continue
        if type(default) not in _TYPES:
            continue
        types, allowed = _TYPES[type(default)]
        is_interpolation = str(value).startswith("${")
        if value is not None and not is_interpolation and type(value) not in types:
            raise InputError(f"{origin}: {key} = {value!r}; allowed: {allowed}")


@cache
def _verl_defaults() -> DictConfig:
    """verl's defaults and the keys of `_ADDED_KEYS`. Only open sections accept further keys."""
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer")
    with open_dict(config):
        config = OmegaConf.merge(config, _ADDED_KEYS)
    OmegaConf.set_struct(config, True)
    for section in _OPEN_SECTIONS:
        OmegaConf.set_struct(OmegaConf.select(config, section), False)
    return config


def _merge(config: DictConfig, layer: Mapping[str, Any], origin: str) -> None:
    """Merge a layer into the config, in place.

    Raises: InputError for a key that verl does not have.
    """
    try:
        config.merge_with(layer)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{origin}: {error.full_key}: verl's config rejects it: {reason}"
        ) from None


def _let_verl_check(config: DictConfig) -> None:
    """Run verl's own checks of a config.

    They leave out the section `rollout`, which verl checks when it makes a dataclass of it.

    Depends on verl/utils/config.py and verl/trainer/ppo/utils.py.
    """
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    try:
        with redirect_stdout(sys.stderr):  # standard output may be the config itself
            validate_config(config, need_reference_policy(config), need_critic(config))
            omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    except Exception as error:  # verl raises many types
        reason = " ".join(str(error).split())
        raise InputError(f"verl rejects the config of {config.rspo.cell}: {reason}") from None
