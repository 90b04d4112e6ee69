"""A training step after which the sampler writes its weights, and their comparison with others.

    python -m tests.gpu.weights CONFIG FOLDER

is verl's driver (`rspo.training.verl.driver`) with a trainer that also lets the sampler write its
weights to a file.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rspo.training.train import train as train_cell
from rspo.training.verl import driver, run
from tests.gpu.settings import SENT, Settings

SAMPLER_FILE = "sampler.safetensors"  # in the cell's folder
# Weights that vLLM joins, of Llama and Qwen2.
_JOINED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
_HEAD, _EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def train(settings: Settings) -> dict[str, Tensor]:
    """Train a step; returns the weights that the sampler has then."""
    experiment, cell = settings.experiment(changes_for(settings)), settings.cell(SENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "DRIVER", __name__)
        patch.setenv("VLLM_ALLOW_INSECURE_SERIALIZATION", "1")  # vLLM's workers get a function
        train_cell(experiment, cell)
    return load_file(experiment.files.folder(cell) / SAMPLER_FILE)


def changes_for(settings: Settings) -> dict[str, Any]:
    """Overrides of the config: one large step, which changes weights even without a reward."""
    return {
        "seeds": SENT + 1,
        "models": {settings.model: {"learning_rate": 1.0e-3}},
        "training": {
            **{"steps": 1, "validation": {"every": None}},
            "optimizer": {"warmup_ratio": 0.0, "weight_decay": 1.0},
        },
    }


def load(folder: Path) -> dict[str, Tensor]:
    """All weights of a model folder."""
    weights: dict[str, Tensor] = {}
    for file in folder.glob("*.safetensors"):
        weights |= load_file(file)
    return weights


def different(sampler: Mapping[str, Tensor], checkpoint: Mapping[str, Tensor]) -> list[str]:
    """The weights that differ after rounding to the sampler's precision, with the reason.

    Args:
        sampler: under the names of transformers or vLLM. vLLM may append rows to the vocabulary.
        checkpoint: under the names of transformers.
    """
    remaining, wrong = dict(checkpoint), []
    for name, weight in sampler.items():
        parts = [remaining.pop(part, None) for part in _parts(name)]
        present = [part for part in parts if part is not None]
        if len(present) < len(parts):
            wrong.append(f"{name}: not in the checkpoint")
            continue
        expected = torch.cat(present).to(weight.dtype) if len(parts) > 1 else present[0]
        expected = expected.to(weight.dtype)
        own = weight[: len(expected)]
        if own.shape != expected.shape:
            wrong.append(f"{name}: shape {tuple(own.shape)} for {tuple(expected.shape)}")
        elif not torch.equal(own, expected):
            most = (own.float() - expected.float()).abs().max().item()
            wrong.append(f"{name}: differs by up to {most:.2g}")
    if _HEAD in remaining and torch.equal(checkpoint[_HEAD], checkpoint[_EMBEDDING]):
        del remaining[_HEAD]  # tied: the sampler has one of the two
    return wrong + [f"{name}: not in the sampler" for name in remaining]


def _parts(name: str) -> list[str]:
    """The names in transformers of the weights that one of the sampler joins."""
    for joined, parts in _JOINED.items():
        if f".{joined}." in name:
            return [name.replace(joined, part) for part in parts]
    return [name]


def save_of_vllm(worker: Any, file: Path) -> None:
    """In a vLLM worker: write its weights, under vLLM's names."""
    named = worker.model_runner.get_model().named_parameters()
    save_file({name: weight.detach().cpu().contiguous() for name, weight in named}, file)


def _save_of_cpu(server: Any, file: Path) -> None:
    """In a server on a CPU: write its weights, under the names of transformers."""
    named = server.policy.model.named_parameters()
    save_file({name: weight.detach().contiguous() for name, weight in named}, file)


def _train(config: Any) -> None:
    """Train with a trainer whose sampler writes its weights after the last step."""
    import ray

    from rspo.training.verl import trainer

    class SavingTrainer(trainer.RSPOTrainer):
        def on_step_end(self) -> None:
            super().on_step_end()
            if self.global_steps < self.training.steps:
                return
            file = (self.experiment.files.folder(self.cell.name) / SAMPLER_FILE).absolute()
            (replica,) = self.checkpoint_manager.replicas
            server = replica.servers[0]
            if self.config.trainer.device == "cuda":
                ray.get(server.collective_rpc.remote(save_of_vllm, args=(file,)))
            else:
                ray.get(server.__ray_call__.remote(_save_of_cpu, file))

    trainer.RSPOTrainer = SavingTrainer
    trainer.train(config)


if __name__ == "__main__":
    driver.train = _train
    driver.main(Path(sys.argv[1]), Path(sys.argv[2]))
