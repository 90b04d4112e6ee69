"""A cell trained with verl's trainer and actor, but without Ray, and with the local engine.

`python -m tests.support.verl_training FOLDER` with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
set; see test_trainer.py. The queue, the sampler and the trainer are in this process. With several
ranks, each has its own copy of them, and takes its share of each update. Rank 0 writes
FOLDER/CASE.json.
"""

import asyncio
import dataclasses
import json
import os
import sys
import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed
import transfer_queue
import verl.utils.tensordict_utils as verl_tensors
from omegaconf import OmegaConf
from tensordict import TensorDict
from torch import Tensor
from torch.distributed.tensor import DTensor
from transfer_queue import KVBatchMeta

from rspo.config.experiment import Experiment, base_name
from rspo.core.files import read_json_lines
from rspo.core.signals import Stopped
from rspo.datasets.prepare import prepare
from rspo.policies import qwen2
from rspo.policies.tokenizer import ChatTokenizer
from rspo.rewards import Reward, register
from rspo.rewards.verdict import CORRECT, INCORRECT, Verdict
from rspo.training import local_engine
from rspo.training.pretraining import make_base_policy
from rspo.training.prompts import prompts_of_step, read_prompts
from rspo.training.train import train as train_locally
from rspo.training.verl import trainer as trainer_module
from rspo.training.verl.cpu_server import Server
from rspo.training.verl.prompt_dataset import PromptLoop
from rspo.training.verl.verl_config import verl_config
from rspo.training.verl.worker import PolicyWorker
from tests.support import tiny_world
from tests.support.servers_numbers import WithServersNumbers

STEPS, STOPPED, PROMPTS, N, K = 4, 3, 10, 16, 4
RANKS, RANK = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
# Adam's epsilon, about the size of the gradients. With the usual 1e-8, the first updates would not
# depend on the scale of the gradients, and would amplify rounding errors.
EPSILON = 1e-4
# Tokens per forward pass of verl: several passes per update, of different numbers of responses.
PASS_TOKENS = 256
PADDING = "<pad>"
TIMEOUT = 500  # seconds for which ranks wait for each other
PROCESSES: list[str] = []  # events of Python that start a process, in this process


@dataclasses.dataclass(frozen=True)
class Case:
    """An objective, settings of `training`, and the step at which a stop is requested.

    reward: a name in the config. temperature: of sampling.
    late: whether the sampler gets new weights after every second step only. This case has none of
        verl's loggers.
    """

    objective: str
    settings: dict[str, Any]
    stop: int = STEPS
    reward: str = "binary"
    temperature: float = 1.0
    late: bool = False


CASES = {
    "sum": Case("rspo_pass_at_k", {}, STOPPED),
    "token-mean": Case("policy_gradient", {"loss_aggregation": "token-mean"}),
    "one update": Case(
        "rspo_max_at_k", {"mini_batch_prompts": 256}, reward="short", temperature=0.8
    ),
    "bonus": Case(
        "rspo_pass_at_k_plug_in",
        {"loss_aggregation": "token-mean", "entropy_bonus": 0.1, "k_schedule": [K, 2]},
    ),
    "late": Case("pkpo_s", {}, late=True),
}


register(Reward("short", lambda own: own.correct / [1 + len(text) for text in own.texts]))


def load_experiment(folder: Path, case: Case, engine: str) -> Experiment:
    spec = {"model": "small", "objective": case.objective, "n": N, "reward": case.reward}
    spec |= {} if case.objective == "policy_gradient" else {"k": K}
    actor = {
        "ppo_max_token_len_per_gpu": PASS_TOKENS,
        "optim": {"override_optimizer_config": {"eps": EPSILON}},
    }
    training = {
        **{"steps": STEPS, "prompts_per_step": PROMPTS, "mini_batch_prompts": PROMPTS // 2},
        "optimizer": {"schedule": "linear", "warmup_ratio": 0.25},
        "checkpoint_every": 2,
        "validation": {"every": 2, "problems": 10, "samples": 4},
    }
    return tiny_world.load(
        folder,
        engine=engine,
        training=training | case.settings,
        sampling={"temperature": case.temperature},
        grid={"main": {"suite": "standard", "seeds": 1, "cells": [spec]}},
        verl={
            "ranks": RANKS,
            "overrides": {
                "actor_rollout_ref": {"actor": actor, "nccl_timeout": TIMEOUT},
                "trainer": {"logger": [] if case.late else ["console"]},
            },
        },
    )


class Verifier:
    """Accepts a third of all responses, but none to the questions of one and a half batches.

    And none with a padding token, for whose embedding transformers has no gradient.
    """

    def __init__(self, experiment: Experiment, cell: str) -> None:
        tokenizer = ChatTokenizer(experiment.files.policy(base_name("small")))
        sampling, training = experiment.config.sampling, experiment.config.training
        prompts, _ = read_prompts(experiment.files.problems("train"), tokenizer, sampling)
        second, third = (
            prompts_of_step(prompts.families, training, experiment.cell(cell).seed, step)
            for step in (1, 2)
        )
        self.hopeless = set(prompts.select([*second[PROMPTS // 2 :], *third]).questions)

    def __call__(
        self, responses: Sequence[str], *_: Any, questions: Sequence[str], **__: Any
    ) -> list[Verdict]:
        return [
            Verdict(CORRECT if self.accepts(question, response) else INCORRECT)
            for question, response in zip(questions, responses, strict=True)
        ]

    def accepts(self, question: str, response: str) -> bool:
        accepted = zlib.crc32((question + response).encode()) % 3 == 0
        return accepted and question not in self.hopeless and PADDING not in response


class Queue:
    """Stands in for the package `transfer_queue`: tags and rows, by partition and key."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, Any]] = defaultdict(dict)
        self.rows: dict[str, dict[str, Any]] = defaultdict(dict)

    def kv_list(self, partition: str | None = None) -> dict[str, dict[str, Any]]:
        return {name: dict(tags) for name, tags in self.tags.items() if partition in (None, name)}

    def kv_batch_put(
        self, keys: list[str], partition_id: str, fields: Any = None, tags: Any = None
    ) -> None:
        for row, key in enumerate(keys):
            self.tags[partition_id].setdefault(key, {}).update(tags[row] if tags else {})
            columns = {} if fields is None else dict(fields[row].items())
            self.rows[partition_id].setdefault(key, {}).update(columns)

    def kv_batch_get(self, keys: list[str], partition_id: str, select_fields: Any) -> TensorDict:
        rows = [self.rows[partition_id][key] for key in keys]
        columns = {name: [row[name] for row in rows] for name in select_fields}
        return TensorDict(
            {
                name: torch.nested.as_nested_tensor(values, layout=torch.jagged)
                if isinstance(values[0], Tensor) and values[0].ndim
                else torch.tensor(values)
                for name, values in columns.items()
            },
            batch_size=len(keys),
        )

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        for key in keys:
            self.tags[partition_id].pop(key, None)


class Agents:
    """Stands in for verl's agent loops and client: asks the server, and fills the queue."""

    def __init__(self, queue: Queue, server: Server, n: int, temperature: float) -> None:
        self.queue, self.server, self.n = queue, server, n
        self.parameters = {"temperature": temperature}

    def generate_sequences(self, requests: TensorDict) -> None:
        asyncio.run(self._answer(requests, verl_tensors.get(requests, "global_steps")))

    async def _answer(self, requests: TensorDict, step: int) -> None:
        names = ("uid", "raw_prompt", "index", "name")
        rows = list(zip(*(requests[name] for name in names), strict=True))
        loop, responses = PromptLoop(self), {}
        for uid, prompt, index, name in rows:
            for session in range(self.n):
                own = {"raw_prompt": prompt, "name": name, "session_id": session}
                answer = loop.run(self.parameters, **own, global_steps=step)
                responses[f"{uid}_{session}_0"] = (int(index), asyncio.ensure_future(answer))
        await asyncio.gather(*(answer for _, answer in responses.values()))
        for key, (index, answer) in responses.items():
            output = answer.result()
            prompt, response = torch.tensor(output.prompt_ids), torch.tensor(output.response_ids)
            self.queue.tags["train"][key] = {
                "status": "success",
                "global_steps": step,
                "seq_len": len(prompt) + len(response),
            }
            self.queue.rows["train"][key] = {
                "prompts": prompt,
                "responses": response,
                "input_ids": torch.cat((prompt, response)),
                "position_ids": torch.arange(len(prompt) + len(response)),
                "response_mask": torch.ones_like(response),
                "loss_mask": torch.ones_like(response),
                "rollout_log_probs": torch.tensor(output.response_logprobs),
                "index": index,
            }
        for uid, *_ in rows:
            self.queue.tags["train"][uid]["status"] = "finished"

    async def generate(self, **request: Any) -> Any:
        return await self.server.generate(**request)


class Workers:
    """Stands in for verl's group of workers, one per rank: this process is one of them."""

    def __init__(self, queue: Queue, worker: PolicyWorker) -> None:
        self.queue, self.worker = queue, worker
        self.updated: list[str] = []  # keys
        self.save_checkpoint = worker.save_checkpoint
        self.load_checkpoint = worker.load_checkpoint
        self.set_policy_in_checkpoints = worker.set_policy_in_checkpoints

    def compute_log_prob(self, batch: KVBatchMeta) -> KVBatchMeta:
        output = self.worker.compute_log_prob(self._data(batch, batch.keys))
        columns = output.select("log_probs", "entropy")
        self.queue.kv_batch_put(batch.keys, batch.partition_id, columns)
        return batch

    def update_actor(self, batch: KVBatchMeta) -> dict[str, Any]:
        size = len(batch) // RANKS
        own = batch.keys[RANK * size : (RANK + 1) * size]
        output = self.worker.update_actor(self._data(batch, own))
        self.updated += batch.keys
        return {"metrics": verl_tensors.get(output, "metrics")}

    def _data(self, batch: KVBatchMeta, keys: list[str]) -> TensorDict:
        rows = self.queue.rows[batch.partition_id]
        names = [name for name in rows[keys[0]] if name not in ("index", "log_probs", "entropy")]
        data = self.queue.kv_batch_get(keys, batch.partition_id, names)
        verl_tensors.assign_non_tensor(data, **batch.extra_info)
        return data


class Servers:
    """Stands in for verl's manager of the servers: gives the actor's weights to the sampler."""

    late: bool  # see `Case`

    def __init__(self, worker: PolicyWorker, server: Server) -> None:
        self.worker, self.server = worker, server

    def update_weights(self, step: int) -> None:
        if not self.late or step % 2 == 0:
            self.server.policy.load_weights(weights_of(self.worker))

    def sleep_replicas(self) -> None: ...


def weights_of(worker: PolicyWorker) -> dict[str, Tensor]:
    parameters, _ = worker.actor.engine.get_per_tensor_param()
    return {name: tensor.detach().clone() for name, tensor in parameters}


def cast_weights(worker: PolicyWorker) -> dict[str, Any]:
    """The types in which the ranks gather weights for servers in bfloat16, and the result."""
    engine = worker.actor.engine
    of_config = engine.sampling_dtype
    exact = weights_of(worker)
    gathered: set[str] = set()
    gather = DTensor.full_tensor

    def noted(weight: DTensor, **options: Any) -> Tensor:
        gathered.add(str(weight.dtype))
        return gather(weight, **options)

    engine.sampling_dtype = torch.bfloat16
    with patch.object(DTensor, "full_tensor", noted):
        cast = weights_of(worker)
    engine.sampling_dtype = of_config
    return {
        "of config": str(of_config),
        "gathered": sorted(gathered),
        "as a server would cast": all(
            torch.equal(cast[name], exact[name].bfloat16()) for name in exact
        ),
        "of checkpoints": sorted(
            {str(weight.dtype) for weight in engine.module.state_dict().values()}
        ),
    }


class Trainer(trainer_module.RSPOTrainer):
    """The trainer, whose queue, sampler and workers are in this process."""

    queue: Queue
    worker: PolicyWorker
    until: int  # step in which a stop is requested
    metrics: set[str]  # names of those that verl would log
    started: list[str]  # processes that a step started

    def _setup(self) -> None:
        section = self.config.actor_rollout_ref
        server = Server(Path(section.model.path), section.rollout.response_length, self.cell.seed)
        self.tokenizer = self.processor = None
        self._init_dataloader()
        self._init_dump_executor()
        self.actor_rollout_wg = Workers(self.queue, self.worker)
        self.checkpoint_manager = Servers(self.worker, server)
        self.agents = Agents(self.queue, server, self.cell.n, section.rollout.temperature)
        self._load_checkpoint()

    def get_llm_client(self) -> Agents:
        return self.agents

    def on_step_end(self) -> None:
        reached = self.global_steps >= self.until
        with patch.object(trainer_module, "is_requested", lambda: reached):
            super().on_step_end()

    def _step_once(self, *arguments: Any) -> KVBatchMeta:
        before = len(PROCESSES)
        batch = super()._step_once(*arguments)
        Trainer.started += PROCESSES[before:]
        return batch

    def _compute_metrics(self, batch: Any, metrics: dict[str, Any], *_: Any, **__: Any) -> None:
        Trainer.metrics = {*metrics}

    def _save_checkpoint(self) -> None:
        if RANKS == 1:
            super()._save_checkpoint()


def with_verl(experiment: Experiment, cell: str, verify: Verifier, stop: int) -> dict[str, Any]:
    """Train with verl's trainer, twice if it stops early; the records, weights and columns."""
    config = verl_config(experiment, cell)
    OmegaConf.resolve(config)
    worker = PolicyWorker(config.actor_rollout_ref, role="actor")
    worker.init_model()
    queue = Queue()
    Trainer.queue, Trainer.worker, Trainer.started = queue, worker, []
    for name in ("kv_list", "kv_batch_put", "kv_batch_get", "kv_clear"):
        setattr(transfer_queue, name, getattr(queue, name))
    updated: list[str] = []
    stopped: list[str] = []
    for until in dict.fromkeys((stop, STEPS)):
        trainer = Trainer(config.copy(), verify)
        trainer.until = until
        trainer.init()
        trainer.parameters = 1000
        trainer.peak = 1e12  # that of a GPU, so that the records have the MFU
        try:
            trainer.fit(trainer.agents)
        except Stopped as reason:
            stopped.append(str(reason))
        updated += trainer.actor_rollout_wg.updated
    columns = ("advantages", "returns", "rm_scores")
    backend = torch.distributed.group.WORLD._get_backend(torch.device("cpu"))
    return {
        "timeout": backend.options._timeout.total_seconds(),
        "stopped": stopped,
        "metrics": sorted(Trainer.metrics),
        "records": trainer.run_log.records,
        "weights": weights_of(worker),
        "cast": cast_weights(worker),
        "processes": Trainer.started,
        "columns": sorted({name for row in queue.rows["train"].values() for name in row}),
        "responses": [
            {name: row[name].tolist() for name in columns if name in row}
            | {"updated": key in updated}
            for key, row in queue.rows["train"].items()
            if "advantages" in row
        ],
    }


class LocalTrainer(WithServersNumbers):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.optimizer.param_groups[0]["eps"] = EPSILON


def locally(experiment: Experiment, cell: str, verify: Verifier) -> dict[str, Any]:
    """Train with the local engine; the records and weights."""
    context = patch.object(local_engine, "verifier_of")
    with context as verifier_of, patch.object(local_engine, "Trainer", LocalTrainer):
        verifier_of.return_value.__enter__.return_value = verify
        train_locally(experiment, cell)
    return {
        "records": read_json_lines(experiment.files.training_log(cell)),
        "weights": qwen2.to_hub(qwen2.load(experiment.files.policy(cell))),
    }


def without(token: int, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights without the embedding of a token."""
    name = "model.embed_tokens.weight"
    rows = [row for row in range(len(weights[name])) if row != token]
    return weights | {name: weights[name][rows]}


def distance(ours: dict[str, Tensor], theirs: dict[str, Tensor], start: dict[str, Tensor]) -> float:
    """Norm of the difference, as a fraction of the norm of all updates."""
    apart = sum(float((ours[name] - theirs[name]).double().square().sum()) for name in theirs)
    moved = sum(float((theirs[name] - start[name]).double().square().sum()) for name in theirs)
    return float((apart / moved) ** 0.5)


def note_processes(event: str, _: Any) -> None:
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"):
        PROCESSES.append(event)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    sys.addaudithook(note_processes)
    root = folder / str(RANK)
    root.mkdir()
    experiment = load_experiment(root, CASES["sum"], "local")
    prepare(experiment, "train")
    prepare(experiment, "validation")
    make_base_policy(experiment, "small")
    for name, case in CASES.items():
        experiment = load_experiment(root, case, "local")
        cell = next(iter(experiment.cells))
        verify = Verifier(experiment, cell)
        local, Servers.late = locally(experiment, cell, verify), case.late
        stop = case.stop if RANKS == 1 else STEPS  # several ranks write no checkpoint
        result = with_verl(load_experiment(root, case, "verl"), cell, verify, stop)
        start = qwen2.to_hub(qwen2.load(experiment.files.policy(base_name("small"))))
        weights = result.pop("weights"), local["weights"], start
        if case.settings.get("entropy_bonus"):  # of responses with a padding token, too
            pad = ChatTokenizer(experiment.files.policy(base_name("small"))).pad
            weights = tuple(without(pad, one) for one in weights)
        result["distance"] = distance(*weights)
        result["expected"] = local["records"]
        if RANK == 0:
            (folder / f"{name}.json").write_text(json.dumps(result))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
