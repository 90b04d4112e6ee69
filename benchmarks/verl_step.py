"""The cost of this package's step compared with verl's own: GRPO without dropping.

Both are measured in one run of verl on a CPU, with Ray, its queue, the FSDP actor and a rollout
server. Steps alternate between this package's trainer and verl's synchronous trainer, with the same
actor. Every group has correct and incorrect responses, so that no response has the weight 0. Both
get the same rewards at the same cost. The limit is for the processor time of all of Ray's
processes, because wall-clock time varies on a busy machine; the ratio of wall-clock times is
reported too.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import Row, readable
from rspo.config.experiment import Experiment
from rspo.config.files import Files
from rspo.core.errors import InputError
from rspo.training.pretraining import make_base_policy
from rspo.training.verl.interface import require_version

CELL = "small--grpo--k1--n8--s0"
STEPS = 22  # the first two are left out as warm-up
BAR = 1.03  # the largest ratio of processor times
TIMES = "RSPO_BENCHMARK_TIMES"  # environment variable: the file for the times of the steps

OVERRIDES: dict[str, Any] = {
    "engine": "verl",
    "models": {
        "small": {
            "scratch": {
                "hidden_size": 128,
                "layers": 4,
                "heads": 4,
                "feed_forward": 384,
                "examples": 100,
                "batch": 10,
                "steps": 1,
            }
        }
    },
    "training": {
        "steps": STEPS,
        "prompts_per_step": 20,
        "mini_batch_prompts": 10,
        "checkpoint_every": STEPS,
    },
    "sampling": {"max_response_tokens": 40},
    "grid": {
        "main": None,
        "scalability": None,
        "model_size": None,
        "max_at_k": None,
        "grpo": {"cells": [{"model": "small", "objective": "grpo", "n": 8}]},
    },
}


def run() -> list[Row]:
    """The processor time and the wall-clock time of verl's step, and the ratio of ours to it."""
    what = "verl's step, GRPO, 160 responses of up to 40 tokens"
    try:
        require_version()
    except InputError as error:
        return [Row(what, f"not measured: {error}")]
    with tempfile.TemporaryDirectory() as name:
        times = _times(Path(name))
    rows = []
    for clock, name in (("cpu", "processor time"), ("wall", "wall-clock time")):
        ours = median(step[clock] for step in times["ours"])
        stock = median(step[clock] for step in times["stock"])
        rows.append(Row(f"{what}, {name}", readable(stock)))
        ratio = ours / stock
        bar = f"<= {BAR}" if clock == "cpu" else ""
        holds = not bar or ratio <= BAR
        rows.append(Row(f"this package's step / verl's, {name}", f"{ratio:.3f}", bar, holds))
    return rows


def _times(folder: Path) -> dict[str, list[dict[str, float]]]:
    """The seconds of each step by trainer and clock.

    They come from a separate process, which runs verl.

    Returns: for "ours" and "stock", which is verl's, a dict for each step with the keys "cpu" and
        "wall".
    """
    experiment = Experiment.load("tiny", OVERRIDES)
    experiment = Experiment(experiment.scale, experiment.config, Files(folder, folder))
    from rspo.datasets.prepare import prepare

    prepare(experiment, "train")
    make_base_policy(experiment, "small")
    times = folder / "times.json"
    code = f"from benchmarks.verl_step import train; train({str(folder)!r})"
    subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {TIMES: str(times)},
        stdout=sys.stderr,
        check=True,
    )
    result: dict[str, list[dict[str, float]]] = json.loads(times.read_text())
    return result


def train(folder: str) -> None:
    """Train with verl and a trainer that alternates between the two steps."""
    os.environ["VERL_PLATFORM"] = "cpu"
    os.environ["VERL_USE_EXTERNAL_MODULES"] = "rspo.training.verl.cpu_platform"
    os.environ["OMP_NUM_THREADS"] = "1"
    import ray
    from omegaconf import OmegaConf
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    from rspo.training.verl import trainer
    from rspo.training.verl.verl_config import verl_config

    experiment = Experiment.load("tiny", OVERRIDES)
    experiment = Experiment(experiment.scale, experiment.config, Files(Path(folder), Path(folder)))
    config = verl_config(experiment, CELL)
    config.algorithm.adv_estimator = "grpo"  # for verl's own steps; this package does not read it
    settings: Any = OmegaConf.to_container(config.ray_kwargs.ray_init)
    settings["runtime_env"] = get_ppo_ray_runtime_env(config)
    ray.init(**settings, _temp_dir=tempfile.mkdtemp(prefix="ray-", dir=folder))
    try:
        trainer.RSPOTrainer = alternating_trainer()  # the class that `train` uses
        trainer.train(config)
    finally:
        ray.shutdown()


def alternating_trainer() -> Any:
    """A class of trainers whose odd steps are this package's and whose even steps are verl's.

    A function defines the class, because verl may be imported only after its platform is set.
    """
    import psutil
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    from rspo.rewards.verdict import CORRECT, INCORRECT, Verdict
    from rspo.training.rewards import verify_tokens
    from rspo.training.verl.batches import fields, on_last_token, put_fields, response_tokens
    from rspo.training.verl.trainer import RSPOTrainer

    def every_second(responses: list[str], *_: Any, **__: Any) -> list[Verdict]:
        """Correct and incorrect responses in every group, so that no weight is zero."""
        reasons = (CORRECT, INCORRECT)
        return [Verdict(reasons[row % 2]) for row in range(len(responses))]

    class AlternatingTrainer(RSPOTrainer):
        def __init__(self, config: Any, verify: Any) -> None:
            super().__init__(config, every_second)
            self.times: dict[str, list[dict[str, float]]] = {"ours": [], "stock": []}

        def _step_once(self, *arguments: Any) -> Any:
            ours = self.global_steps % 2 == 1
            step = super()._step_once if ours else self._step_of_verl
            cpu = _cpu_seconds()
            wall = time.perf_counter()
            batch = step(*arguments)
            taken = {"cpu": _cpu_seconds() - cpu, "wall": time.perf_counter() - wall}
            if self.global_steps > 2:  # the first step of each is warm-up
                self.times["ours" if ours else "stock"].append(taken)
            Path(os.environ[TIMES]).write_text(json.dumps(self.times))
            return batch

        def _step_of_verl(self, *arguments: Any) -> Any:
            """verl's own step, which this package's trainer overrides."""
            return PPOTrainerSync._step_once(self, *arguments)

        def _balance_batch(self, batch: Any, metrics: Any, **more: Any) -> Any:
            """Set the same rewards; verl calls this between sampling and the rest of its step."""
            tokens = response_tokens(fields(batch, "responses"))
            dataset = self.train_dataset
            rows = [dataset.rows[int(index)] for index in fields(batch, "index")["index"]]
            correct = verify_tokens(tokens, rows, dataset.prompts, self.chat_tokenizer, self.verify)
            rewards = correct.astype(float).tolist()
            put_fields(batch, {"rm_scores": on_last_token(rewards, [len(ids) for ids in tokens])})
            return super()._balance_batch(batch, metrics, **more)

    def _cpu_seconds() -> float:
        """The processor time of this process and its descendants: actor, queue, server, Ray."""
        total = 0.0
        processes = [me]
        processes += me.children(recursive=True)
        for process in processes:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:  # it has ended
                continue
            total += times.user + times.system
        return total

    me = psutil.Process()
    return AlternatingTrainer
