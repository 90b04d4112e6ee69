"""Sets up the trainer, its queue, its agent loops and the verifier in verl's driver.

Depends on verl/trainer/main_ppo.py, whose runner it replaces, and on
verl/trainer/ppo/v1/agent_loop_tq.py.
"""

import os

import transfer_queue
from omegaconf import DictConfig, OmegaConf
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ

from rspo.config.experiment import Experiment
from rspo.rewards.configured import verifier_of
from rspo.training.verl.section import experiment_of
from rspo.training.verl.trainer import Trainer


def train(config: DictConfig) -> None:
    """Train until the last step's checkpoint is written.

    Raises: Stopped after an earlier checkpoint, if a stop was requested.
    """
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    experiment = experiment_of(config.rspo)
    verdicts = experiment.verdicts(config.rspo.cell, "train")
    # Read by verl's tensorboard logger.
    os.environ["TENSORBOARD_DIR"] = str(experiment.folder(config.rspo.cell) / "tensorboard")
    transfer_queue.init(config.transfer_queue)  # ends with the Ray cluster
    verifier, gpus = experiment.config.verifier, _gpus(experiment)
    # The judge's servers start first: vLLM checks how much memory of a GPU is free.
    with verifier_of(experiment, verifier, verdicts, gpus) as verify:
        trainer = Trainer(config, verify)
        trainer.init()
        agents = AgentLoopManagerTQ.create(
            config=config,
            llm_client=trainer.get_llm_client(),
            teacher_client=trainer.get_teacher_client(),
            reward_loop_worker_handles=None,  # the trainer computes the rewards
        )
        trainer.fit(agents)


def _gpus(experiment: Experiment) -> list[str]:
    """Names of this node's GPUs that train, for CUDA_VISIBLE_DEVICES."""
    if not experiment.trains_on_gpus:
        return []
    assert experiment.config.verl is not None  # because it trains with verl
    numbers = [str(number) for number in range(experiment.config.verl.ranks)]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[: len(numbers)] if visible else numbers
