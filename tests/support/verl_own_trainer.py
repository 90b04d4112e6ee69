"""`python -m tests.support.verl_own_trainer FOLDER SETTING ...`: verl's own trainer on a CPU.

verl's data set, reward loop, step and validation, with a tiny policy of the experiment in FOLDER
and the settings given. This package's are the actor and the rollout, because verl's do not run
without a GPU (`rspo.training.verl.worker`), and the agent loop, because verl's needs a chat
template.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import ray
import transfer_queue
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from rspo.config.experiment import Experiment, base_name
from rspo.core.tables import PROBLEMS, read_table
from rspo.policies.tokenizer import ChatTokenizer
from rspo.training.verl.worker import PolicyWorker
from tests.support import ROOT, tiny_world

CPU = ROOT / "rspo" / "training" / "verl" / "cpu.yaml"


class OnCpu(PPOTrainerSync):
    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        self.role_worker_mapping[Role.ActorRollout] = ray.remote(PolicyWorker)


def data_file(experiment: Experiment) -> Path:
    """The training problems in the columns that verl reads."""
    rows = read_table(experiment.problems("train"), PROBLEMS)
    tokenizer = ChatTokenizer(experiment.policy(base_name("small")))
    columns = {
        "data_source": ["sums"] * len(rows),
        "prompt": tokenizer.prompts([row["prompt"] for row in rows]),
        "name": [str(index) for index in range(len(rows))],
        "reward_model": [{"ground_truth": row["answers"]} for row in rows],
        "extra_info": [{"index": index} for index in range(len(rows))],
    }
    path = experiment.results / "verl.parquet"
    pd.DataFrame(columns).to_parquet(path)
    return path


def settings_of(experiment: Experiment) -> dict[str, Any]:
    data = str(data_file(experiment))
    sampling = experiment.config.sampling
    longest = {"max_prompt_length": sampling.max_prompt_tokens, "max_response_length": 12}
    return {
        "data": {
            **{
                "train_files": data,
                "val_files": data,
                "train_batch_size": 10,
                "val_max_samples": 12,
            },
            **{"dataloader_num_workers": 0, "filter_overlong_prompts": False},
            **longest,
        },
        "actor_rollout_ref": {
            "model": {"path": str(experiment.policy(base_name("small")).absolute())},
            "actor": {
                **{"ppo_mini_batch_size": 10, "use_kl_loss": False},
                "optim": {"_target_": "rspo.training.verl.optimizer.ScheduledOptimizerConfig"},
                "fsdp_config": {"param_offload": False},
            },
            "rollout": {
                **{"calculate_log_probs": True, "seed": 0},
                "agent": {"default_agent_loop": "rspo_prompt"},
                "max_model_len": sum(longest.values()),
            },
        },
        "critic": {"enable": False},
        "reward": {"num_workers": 2},
        "trainer": {
            **{"n_gpus_per_node": 1, "nnodes": 1, "device": "cpu", "logger": ["console"]},
            **{"total_training_steps": 2, "total_epochs": 1, "save_freq": -1, "test_freq": 1},
            "default_local_dir": str(experiment.results / "verl"),
        },
        "ray_kwargs": {"ray_init": {"num_gpus": 1}},
    }


def main(folder: Path, words: list[str]) -> None:
    experiment = tiny_world.load(folder)
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=words)
    OmegaConf.set_struct(config, False)
    config.merge_with(OmegaConf.load(CPU), settings_of(experiment))
    config.actor_rollout_ref.actor.optim.schedule = "constant"
    config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    settings: Any = OmegaConf.to_container(config.ray_kwargs.ray_init)
    settings["runtime_env"] = get_ppo_ray_runtime_env(config)
    ray.init(**settings, _temp_dir=tempfile.mkdtemp(prefix="rspo-", dir="/tmp"))
    try:
        transfer_queue.init(config.transfer_queue)
        trainer = OnCpu(config)
        trainer.init()
        agents = AgentLoopManagerTQ.create(
            config=config,
            llm_client=trainer.get_llm_client(),
            teacher_client=trainer.get_teacher_client(),
            reward_loop_worker_handles=trainer.get_reward_handles(),
        )
        trainer.fit(agents)
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
