"""A cell of an experiment -> verl's whole config.

Laid over each other, the later ones winning: verl's own defaults; `cpu.yaml` or `cuda.yaml` beside
this file, for the device; what the cell and the scale say, below; the model's key `verl`; the
scale's `verl.overrides`. A key that verl does not have is an error, and so is one in the last two
that nothing would read.
"""

import contextlib
import copy
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rspo.config.experiment import Cell, Experiment, base_name
from rspo.config.schema import Config, VerlSettings
from rspo.core.errors import InputError
from rspo.training.verl.advantages import K_KEY, estimator_name
from rspo.training.verl.interface import require_version

# Where prompts come from and what asks for responses: rspo/training/verl/prompt_dataset.py.
PROMPTS_MODULE = "rspo.training.verl.prompt_dataset"
# PPO as the paper has it clips on one side only; verl's third clip, for negative advantages, is
# moved out of reach.
NO_DUAL_CLIP = 1.0e6

# Keys that verl does not have itself, with defaults: of this package, of Ray, of transformers.
_ADDED: dict[str, Any] = {
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
# Sections whose keys are another library's, so that verl cannot say which there are.
_OPEN = (
    "rspo",
    "ray_kwargs.ray_init",
    "actor_rollout_ref.model.override_config",
    "actor_rollout_ref.rollout.engine_kwargs.vllm",
)

# Keys and sections of verl that would change nothing but what verl.yaml says, and what to set
# instead.
_ACTOR, _OPTIM = "actor_rollout_ref.actor", "actor_rollout_ref.actor.optim"
_NO_REFERENCE = "there is no reference policy to stay near"
_SCHEDULE = "training.optimizer has the schedule"
_WITHOUT_EFFECT = {
    "algorithm.use_kl_in_reward": _NO_REFERENCE,
    "algorithm.rollout_correction": "of this section only bypass_mode is used",
    "algorithm": "the cell's objective decides",
    f"{_ACTOR}.ppo_epochs": "each mini-batch is one update",
    f"{_ACTOR}.shuffle": "mini-batches are the step's prompts in their order",
    f"{_ACTOR}.ppo_mini_batch_size": "set training.mini_batch_prompts",
    f"{_ACTOR}.loss_agg_mode": "set verl.loss_aggregation",
    f"{_ACTOR}.use_kl_loss": _NO_REFERENCE,
    f"{_ACTOR}.entropy_coeff": "the loss has no entropy bonus",
    f"{_ACTOR}.calculate_entropy": "training.jsonl has the entropy",
    f"{_OPTIM}.lr_scheduler_type": "set training.optimizer.schedule",
    f"{_OPTIM}.warmup_style": "set training.optimizer.schedule",
    f"{_OPTIM}.schedule": "set training.optimizer.schedule",
    f"{_OPTIM}.lr_warmup_steps": "set training.optimizer.warmup_ratio",
    f"{_OPTIM}.lr_warmup_steps_ratio": "set training.optimizer.warmup_ratio",
    f"{_OPTIM}.total_training_steps": "set training.steps",
    f"{_OPTIM}.min_lr_ratio": _SCHEDULE,
    f"{_OPTIM}.num_cycles": _SCHEDULE,
}
_WITH_EFFECT = "algorithm.rollout_correction.bypass_mode"


def verl_config(experiment: Experiment, name: str) -> DictConfig:
    """The config that a cell is trained with, checked by verl.

    Raises: InputError for another verl, a key that verl does not have or that changes nothing, or a
        value that verl refuses.
    """
    require_version()
    cell = experiment.cell(name)
    settings = experiment.config.verl
    if settings is None:
        raise InputError(f"config/{experiment.scale}.yaml: engine = 'verl' needs the section verl")
    _require_equal_shares(experiment.config, cell, settings)
    _require_loggers(settings)
    device = OmegaConf.load(Path(__file__).with_name(f"{settings.device}.yaml"))
    own = {
        f"models.{cell.model}.verl": experiment.config.models[cell.model].verl,
        "verl.overrides": settings.overrides,
    }
    for origin, layer in own.items():
        _require_effect(layer, origin)
    layers = {
        f"{settings.device}.yaml": device,
        "the cell": cell_settings(experiment, cell, settings),
        **own,
    }
    config = copy.deepcopy(_verl_defaults())
    for origin, layer in layers.items():
        _lay_over(config, layer, origin)
    _let_verl_check(config)
    return config


def cell_settings(experiment: Experiment, cell: Cell, settings: VerlSettings) -> dict[str, Any]:
    """What the cell and its scale say, in verl's keys."""
    config = experiment.config
    training, sampling, optimizer = config.training, config.sampling, config.training.optimizer
    updates = training.prompts_per_step // training.mini_batch_prompts
    return {
        "rspo": {
            "scale": experiment.scale,
            "cell": cell.name,
            "results": str(experiment.results.absolute()),
            "config": config.model_dump(mode="json"),
        },
        "data": {
            "custom_cls": {"path": f"pkg://{PROMPTS_MODULE}", "name": "PromptsInOrder"},
            "train_files": str(experiment.problems("train").absolute()),
            "val_files": [],  # validation.py has problems of its own
            "shuffle": False,  # the order is the cell's own
            "train_batch_size": training.prompts_per_step,
            "max_prompt_length": sampling.max_prompt_tokens,
            "max_response_length": sampling.max_response_tokens,
            "dataloader_num_workers": 0,
        },
        "algorithm": {"adv_estimator": estimator_name(cell.objective), K_KEY: cell.k},
        "critic": {"enable": False},
        "reward": {"num_workers": 0},  # rspo/training/verl/trainer.py rewards whole batches
        "actor_rollout_ref": {
            "model": {"path": str(experiment.policy(base_name(cell.model)).absolute())},
            "actor": {
                "ppo_mini_batch_size": training.mini_batch_prompts,
                "clip_ratio": training.ppo_clip,
                "clip_ratio_low": training.ppo_clip,
                "clip_ratio_high": training.ppo_clip,
                "clip_ratio_c": NO_DUAL_CLIP,
                "loss_agg_mode": settings.loss_aggregation,
                "use_kl_loss": False,
                "entropy_coeff": 0.0,
                "optim": {
                    "_target_": "rspo.training.verl.optimizer.ScheduledOptimizerConfig",
                    "lr": config.models[cell.model].learning_rate,
                    "lr_warmup_steps_ratio": optimizer.warmup_ratio,
                    "schedule": optimizer.schedule,
                    "betas": list(optimizer.betas),
                    "weight_decay": optimizer.weight_decay,
                    "clip_grad": optimizer.gradient_clip or float("inf"),
                    "total_training_steps": training.steps * updates,
                },
                # A Hugging Face folder in each checkpoint: the last one is the policy.
                "checkpoint": {"save_contents": ["model", "optimizer", "extra", "hf_model"]},
            },
            "rollout": {
                "n": cell.n,
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "val_kwargs": {
                    "n": training.validation.samples,
                    "temperature": sampling.temperature,
                    "top_p": sampling.top_p,
                    "do_sample": True,
                },
                "seed": cell.seed,
                "calculate_log_probs": True,  # for the entropy
                "agent": {"default_agent_loop": "rspo_prompt"},
                "max_model_len": sampling.max_prompt_tokens + sampling.max_response_tokens,
            },
        },
        "trainer": {
            "logger": list(settings.loggers),  # training.jsonl is written by this package
            "project_name": "rspo",
            "experiment_name": cell.name,
            "nnodes": settings.nodes,
            "n_gpus_per_node": settings.ranks_per_node,
            "device": settings.device,
            "total_epochs": 1,  # of all prompts of all steps, in their order
            "total_training_steps": training.steps,
            "save_freq": training.checkpoint_every,
            "test_freq": -1,
            "val_before_train": False,
            "default_local_dir": str(experiment.checkpoint(cell.name).absolute()),
            "resume_mode": "auto",
            # All, of verl's own accord: it forgets at a resume which it made before. The trainer
            # removes them.
            "max_actor_ckpt_to_keep": None,
        },
        "ray_kwargs": {
            # Of each node; on a CPU they are only slots for ranks.
            "ray_init": {"num_gpus": settings.ranks_per_node if settings.device == "cpu" else None}
        },
    }


def _require_equal_shares(config: Config, cell: Cell, settings: VerlSettings) -> None:
    """Raises: InputError if the ranks cannot share the responses of a mini-batch equally."""
    responses = config.training.mini_batch_prompts * cell.n
    if responses % settings.ranks:
        raise InputError(
            f"{cell.name}: a mini-batch of {config.training.mini_batch_prompts} prompts with "
            f"{cell.n} responses cannot be shared by {settings.ranks} ranks; allowed: ranks that "
            f"divide {responses}"
        )


def _require_loggers(settings: VerlSettings) -> None:
    """Raises: InputError if the package behind a logger is not installed."""
    for name in settings.loggers:
        if name != "console" and importlib.util.find_spec(name) is None:
            raise InputError(f"verl.loggers: {name} is not installed; `pip install {name}` does it")


def _require_effect(layer: Mapping[str, Any], origin: str) -> None:
    """Raises: InputError for a key that would only make verl.yaml say what did not happen."""
    for key in _leaves(layer):
        for section, instead in _WITHOUT_EFFECT.items():
            if f"{key}.".startswith(f"{section}.") and key != _WITH_EFFECT:
                raise InputError(f"{origin}: {key} would have no effect: {instead}")


def _leaves(section: Mapping[str, Any]) -> Iterator[str]:
    """Whole names of the keys of nested sections."""
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from (f"{key}.{below}" for below in _leaves(value))
        else:
            yield str(key)


@cache
def _verl_defaults() -> DictConfig:
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer")
    with open_dict(config):
        config = OmegaConf.merge(config, _ADDED)
    OmegaConf.set_struct(config, True)
    for section in _OPEN:
        OmegaConf.set_struct(OmegaConf.select(config, section), False)
    return config


def _lay_over(config: DictConfig, layer: Mapping[str, Any], origin: str) -> None:
    """Raises: InputError for a key that verl does not have, or a section that is none."""
    try:
        config.merge_with(layer)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{origin}: {error.full_key}: verl's config refuses it: {reason}"
        ) from None


def _let_verl_check(config: DictConfig) -> None:
    """verl's own check of a config, and its classes of what the check leaves out.

    Depends on verl/utils/config.py and verl/trainer/ppo/utils.py.

    Raises: InputError with what verl says.
    """
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    try:
        with _stdout_to_stderr():
            validate_config(config, need_reference_policy(config), need_critic(config))
            omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    except Exception as error:  # verl asserts and raises whatever comes
        reason = " ".join(str(error).split())
        raise InputError(f"verl refuses the config of {config.rspo.cell}: {reason}") from None


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """verl prints that all is well, where the config itself may be printed."""
    with contextlib.redirect_stdout(sys.stderr):
        yield
