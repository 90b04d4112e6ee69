"""One of two ranks of verl's actor, with the settings of `device: cuda` for the entropy.

`python -m tests.support.verl_actor FOLDER TIMEOUT`, with RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT set. Rank 0 prints how often the entropy was compiled for ten lengths of a batch, and
then how long it waits for rank 1, which does not come.
"""

import os
import sys
import time
from pathlib import Path

import torch
from omegaconf import OmegaConf
from torch._dynamo.utils import counters

from rspo.config.experiment import Experiment
from rspo.training.verl.verl_config import verl_config
from rspo.training.verl.worker import PolicyWorker
from tests.support import paper_scale, tiny_world

CELL = "small--rspo-pass--k4--n16--s0"
PAPER_CELL = "qwen2.5-math-7b--policy-gradient--k1--n16--s0"


def load_experiment(folder: Path, timeout: int) -> Experiment:
    """The small experiment with two ranks; each compiles what it would compile on a GPU."""
    own = folder / f"paper-{os.environ['RANK']}"  # both ranks copy the config
    own.mkdir()
    paper = verl_config(paper_scale.load(own), PAPER_CELL).actor_rollout_ref.actor
    actor = {
        "entropy_from_logits_with_chunking": paper.entropy_from_logits_with_chunking,
        "fsdp_config": {"use_torch_compile": paper.fsdp_config.use_torch_compile},
    }
    overrides = {"actor_rollout_ref": {"nccl_timeout": timeout, "actor": actor}}
    verl = {"ranks": 2, "overrides": overrides}
    return tiny_world.load(folder, engine="verl", verl=verl)


def main(folder: Path, timeout: int) -> None:
    config = verl_config(load_experiment(folder, timeout), CELL).actor_rollout_ref
    OmegaConf.resolve(config)
    worker = PolicyWorker(config, role="actor")
    worker.init_model()
    if worker.rank:
        time.sleep(600)  # rank 0 ends earlier, and the test ends this process
    engine, before = worker.actor.engine, counters["stats"]["unique_graphs"]
    for length in range(5000, 15000, 1000):
        engine.compute_entropy_from_logits(torch.zeros(length, 8))
    print("COMPILED", counters["stats"]["unique_graphs"] - before, flush=True)
    started = time.monotonic()
    try:
        torch.distributed.barrier()
    except RuntimeError:
        print("WAITED", round(time.monotonic() - started), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
