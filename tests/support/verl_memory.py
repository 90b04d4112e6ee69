"""One of two ranks of verl's actor: the memory that a small model takes, measured.

`python -m tests.support.verl_memory FOLDER KERNEL`, with RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT set. KERNEL: the cross-entropy, `verl`'s for CPUs, or `flash`, which keeps the tensors
that flash-attn's keeps.
Each rank prints `MEASURED` and the peaks of a pass for log-probabilities and of an update, in
bytes, as PyTorch's allocator for CPUs reports them (as torch.cuda.max_memory_allocated does).
"""

import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDict
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.profiler import ProfilerActivity, profile
from verl.utils import tensordict_utils as tu

from rspo.config.experiment import Experiment
from rspo.policies import qwen2
from rspo.policies.qwen2 import ModelConfig, Qwen2
from rspo.policies.tokenizer import save_tokenizer
from rspo.training.verl.verl_config import verl_config
from tests.support import tiny_world
from tests.support.random_policy import END, PAD

CELL = "small--rspo-pass--k4--n16--s0"
RANKS, PASSES = 2, 2
PROMPT, RESPONSE, RESPONSES = 16, 48, 16  # of a pass
SHAPE = {
    "model_type": "qwen2",
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 16_384,
    "tie_word_embeddings": True,
}


def load_experiment(folder: Path) -> Experiment:
    """Two ranks with the settings of a GPU that a CPU has too."""
    actor = {
        "ppo_max_token_len_per_gpu": RESPONSES * (PROMPT + RESPONSE),
        "entropy_from_logits_with_chunking": True,
        "fsdp_config": {
            "mixed_precision": {"param_dtype": "bf16"},
            "entropy_from_logits_chunk_size": 256,
        },
    }
    model = {"use_remove_padding": True, "enable_gradient_checkpointing": True}
    verl = {"ranks": RANKS, "overrides": {"actor_rollout_ref": {"actor": actor, "model": model}}}
    sampling = {"max_prompt_tokens": PROMPT, "max_response_tokens": RESPONSE}
    return tiny_world.load(folder, engine="verl", verl=verl, sampling=sampling)


def save_policy(experiment: Experiment) -> None:
    """Write the base policy: random weights of this shape."""
    shape, folder = SHAPE, experiment.policy("small--base")
    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    names += ("num_key_value_heads", "intermediate_size")
    model = Qwen2(ModelConfig(*(int(shape[name]) for name in names), PROMPT + RESPONSE))
    model.initialise(0.02, torch.Generator().manual_seed(0))
    save_tokenizer(folder, PROMPT, PROMPT + RESPONSE)
    qwen2.save(model, folder, {"eos_token_id": END, "pad_token_id": PAD})


def batch(config: DictConfig) -> TensorDict:
    """What verl's trainer sends to the actor for an update: this rank's share of a mini-batch."""

    def nested(length: int, value: float | None = None) -> Tensor:
        rows = [
            torch.randint(2, 30, (length,)) if value is None else torch.full((length,), value)
            for _ in range(PASSES * RESPONSES)
        ]
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    prompts, responses = nested(PROMPT), nested(RESPONSE)
    pairs = zip(prompts.unbind(), responses.unbind(), strict=True)
    rows = [torch.cat(pair) for pair in pairs]
    columns = {
        "prompts": prompts,
        "responses": responses,
        "input_ids": torch.nested.as_nested_tensor(rows, layout=torch.jagged),
        "position_ids": torch.nested.as_nested_tensor(
            [torch.arange(len(row)) for row in rows], layout=torch.jagged
        ),
        "loss_mask": nested(PROMPT + RESPONSE, 1),
        "response_mask": nested(RESPONSE, 1),
        "old_log_probs": nested(RESPONSE, -9.7),
        "advantages": nested(RESPONSE, 0.5),
    }
    data = TensorDict(columns, batch_size=[len(rows)])
    tu.assign_non_tensor(
        data,
        temperature=config.rollout.temperature,
        global_batch_size=RANKS * len(rows),
        global_token_num=[len(row) for row in rows],
        compute_loss=False,
    )
    return data


def live_bytes() -> int:
    """Memory of all tensors, such as the shards of the weights and of Adam's moments."""
    storages = {}
    for found in gc.get_objects():
        if isinstance(found, Tensor):
            own = found.to_local() if isinstance(found, DTensor) else found
            if not own.is_nested:
                storages[own.untyped_storage().data_ptr()] = own.untyped_storage().nbytes()
    return sum(storages.values())


def peak(run: Callable[[], object], trace: Path) -> int:
    """The peak while a function runs: what was there before, and the allocator's peak."""
    before = live_bytes()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    profiler.export_chrome_trace(str(trace))
    events: list[dict[str, Any]] = json.loads(trace.read_text())["traceEvents"]
    of_allocator = [event["args"] for event in events if event.get("name") == "[memory]"]
    return before + max(int(one["Total Allocated"]) for one in of_allocator)


class CrossEntropy(torch.autograd.Function):
    """As flash-attn's (ops/triton/cross_entropy.py): the gradient overwrites the logits."""

    @staticmethod
    def forward(context: Any, logits: Tensor, labels: Tensor) -> Tensor:
        logsumexp = torch.cat([part.float().logsumexp(-1) for part in logits.split(16)])
        context.save_for_backward(logits, logsumexp, labels)
        return logits.gather(-1, labels[:, None]).squeeze(-1).float() - logsumexp

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        logits, logsumexp, labels = context.saved_tensors
        parts = (tensor.split(16) for tensor in (logits, logsumexp, labels, gradient))
        for part, normaliser, label, of_row in zip(*parts, strict=True):
            change = -(part.float() - normaliser[:, None]).exp_()
            change.scatter_add_(-1, label[:, None], torch.ones(len(label), 1))
            part.copy_(change * of_row[:, None])
        return logits, None


def main(folder: Path, kernel: str) -> None:
    from verl.workers.engine.fsdp import transformer_impl

    from rspo.training.verl.worker import PolicyWorker

    if kernel == "flash":
        transformer_impl.logprobs_from_logits = lambda logits, labels, inplace_backward: (
            CrossEntropy.apply(logits, labels)
        )
    config = verl_config(load_experiment(folder), CELL).actor_rollout_ref
    OmegaConf.resolve(config)
    worker, trace = PolicyWorker(config, role="actor"), folder / f"trace-{os.environ['RANK']}.json"
    worker.init_model()
    worker.actor.train_batch(batch(config))  # makes Adam's moments
    with_entropy, data = batch(config), batch(config)
    tu.assign_non_tensor(with_entropy, calculate_entropy=True)
    found = {
        "log-probabilities": peak(lambda: worker.actor.infer_batch(with_entropy), trace),
        "update": peak(lambda: worker.actor.train_batch(data), trace),
    }
    print("MEASURED", json.dumps(found), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
