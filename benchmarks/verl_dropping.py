"""The time that dropping saves: verl's update on a fraction of the responses and on all.

It runs one rank of the actor of `engine: verl`, without Ray: log-probabilities and one update of a
mini-batch, from which nothing, a quarter, or more of the responses was dropped at random. Without
fixed costs, the time is proportional to the fraction of tokens that is kept, with a slope of 1.
"""

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import Row, median_cpu_seconds, readable
from rspo.config.experiment import Experiment, base_name
from rspo.config.files import Files
from rspo.core.errors import InputError
from rspo.policies import qwen2
from rspo.policies.qwen2 import ModelConfig, Qwen2
from rspo.policies.tokenizer import ChatTokenizer, save_tokenizer
from rspo.training.verl.interface import require_version

# Large enough for passes to cost more than Adam's step: 0.9 million parameters, 7,000 tokens.
LAYERS = 4
HIDDEN = 128
HEADS = 4
FEED_FORWARD = 384
RESPONSES = 128
PROMPT = 16  # tokens
LONGEST = 64  # tokens of a response
FRACTIONS = (1.0, 0.75, 0.5, 0.25, 0.125)
REPEATS = 3
TOLERANCE = 0.1  # the largest distance of the slope from 1
# verl reads these at import; the last four describe a single rank.
ENVIRONMENT = {
    "VERL_PLATFORM": "cpu",
    "VERL_USE_EXTERNAL_MODULES": "rspo.training.verl.cpu_platform",
    "RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",
}


def run() -> list[Row]:
    """The time on all responses, the fraction of it for each dropped part, and the slope."""
    what = f"verl's log-probabilities and update, {RESPONSES} responses"
    os.environ.update(ENVIRONMENT)
    try:
        require_version()
    except InputError as error:
        return [Row(what, f"not measured: {error}")]
    with tempfile.TemporaryDirectory() as name:
        # The actor needs a process group, even with one rank. A file as its store needs no port.
        torch.distributed.init_process_group(
            "gloo", store=torch.distributed.FileStore(f"{name}/store", 1), rank=0, world_size=1
        )
        try:
            worker, settings = _worker(Path(name))
            lengths = torch.randint(8, LONGEST + 1, (RESPONSES,))
            tokens = {}
            updates = {}
            for fraction in FRACTIONS:
                rows = _kept(fraction)  # a smaller fraction keeps some of the same rows
                tokens[fraction] = int(lengths[rows].sum()) + PROMPT * len(rows)
                updates[fraction] = partial(_update, worker, settings, lengths, rows)
            seconds = median_cpu_seconds(updates, REPEATS)
        finally:
            torch.distributed.destroy_process_group()
    full = FRACTIONS[0]
    tokens_kept = [tokens[fraction] / tokens[full] for fraction in FRACTIONS]
    time_taken = [seconds[fraction] / seconds[full] for fraction in FRACTIONS]
    slope, rest = np.polyfit(tokens_kept, time_taken, 1)
    table = [Row(f"{what}, nothing dropped", readable(seconds[full]))]
    for kept, time in zip(tokens_kept[1:], time_taken[1:], strict=True):
        dropped = f"the same, {1 - kept:.0%} of the tokens dropped"
        table.append(Row(dropped, f"{time:.2f} of the time"))
    measured = f"{slope:.2f} ({rest:.2f} of the time is fixed)"
    bar = f"within {TOLERANCE} of 1"
    holds = abs(slope - 1) <= TOLERANCE
    table.append(Row("slope of time against tokens kept", measured, bar, holds))
    return table


def _worker(folder: Path) -> tuple[Any, Any]:
    """verl's actor with a random model, and its config."""
    from omegaconf import OmegaConf

    from rspo.training.verl.verl_config import verl_config
    from rspo.training.verl.worker import PolicyWorker

    experiment = Experiment.load("tiny", {"engine": "verl"})
    experiment = Experiment(experiment.scale, experiment.config, Files(folder, folder))
    policy = experiment.files.policy(base_name("small"))
    context = PROMPT + LONGEST
    save_tokenizer(policy, PROMPT, context)
    tokenizer = ChatTokenizer(policy)
    config = ModelConfig(tokenizer.size, HIDDEN, LAYERS, HEADS, HEADS, FEED_FORWARD, context)
    model = Qwen2(config)
    model.initialise(0.05, torch.Generator().manual_seed(0))
    qwen2.save(model, policy, {"eos_token_id": tokenizer.end, "pad_token_id": tokenizer.pad})
    config = verl_config(experiment, "small--rspo-pass--k4--n16--s0")
    # Several passes even for the smallest fraction, so that their number matters little.
    config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu = 1024
    config.actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu = 1024
    OmegaConf.resolve(config)
    worker = PolicyWorker(config.actor_rollout_ref, role="actor")
    worker.init_model()
    return worker, config.actor_rollout_ref


def _kept(fraction: float) -> list[int]:
    """The rows of the responses that are kept: a random fraction of them, in their order."""
    order = torch.randperm(RESPONSES, generator=torch.Generator().manual_seed(1))
    return sorted(order[: int(fraction * RESPONSES)].tolist())


def _update(worker: Any, settings: Any, lengths: torch.Tensor, rows: list[int]) -> None:
    """Compute the log-probabilities of some rows, then make one update on them."""
    import verl.utils.tensordict_utils as verl_tensors
    from verl.workers.utils.padding import response_from_nested

    from rspo.training.verl.batches import update_settings

    batch = _batch([int(lengths[row]) for row in rows])
    settings_of_pass = {
        "calculate_entropy": True,
        "compute_loss": False,
        "temperature": settings.rollout.temperature,
    }
    verl_tensors.assign_non_tensor(batch, **settings_of_pass)
    result = worker.compute_log_prob(batch)
    batch["old_log_probs"] = response_from_nested(result["log_probs"], batch["response_mask"])
    verl_tensors.assign_non_tensor(batch, **update_settings(settings, RESPONSES, len(rows)))
    worker.update_actor(batch)


def _batch(lengths: list[int]) -> Any:
    """Random responses of these lengths, as the nested tensors that verl's actor takes."""
    from tensordict import TensorDict

    def nested(rows: list[torch.Tensor]) -> torch.Tensor:
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    draw = torch.Generator().manual_seed(2)
    prompts = [torch.randint(2, 30, (PROMPT,), generator=draw) for _ in lengths]
    responses = [torch.randint(2, 30, (length,), generator=draw) for length in lengths]
    sequences = [torch.cat(pair) for pair in zip(prompts, responses, strict=True)]
    ones = [torch.ones_like(response) for response in responses]
    columns = {
        "prompts": prompts,
        "responses": responses,
        "input_ids": sequences,
        "position_ids": [torch.arange(len(row)) for row in sequences],
        "response_mask": ones,
        "loss_mask": ones,
        "advantages": [torch.ones(length) for length in lengths],
    }
    return TensorDict(
        {name: nested(rows) for name, rows in columns.items()}, batch_size=len(lengths)
    )
