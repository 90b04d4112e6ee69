"""What this project's step costs beside verl's own: GRPO with nothing dropped, step by step.

One run of verl on a CPU, with Ray, its queue, the FSDP actor and a rollout server. Its steps are
made in turn by this project's trainer and by verl's synchronous one, on the same actor; every group
has right and wrong responses, so that every response has a weight. The rewards are the same and
cost both the same. Processor time of all of Ray's processes, since the clock of a busy machine says
little; the clock's ratio stands beside it.
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
from rspo.core.errors import InputError
from rspo.training.pretraining import make_base_policy
from rspo.training.verl.interface import require_version

CELL = "small--grpo--k1--n8--s0"
STEPS = 22  # the first two, which pay for what only they need, are left out
BAR = 1.03
TIMES = "RSPO_BENCHMARK_TIMES"  # environment: file that the trainer writes its times to

OVERRIDES: dict[str, Any] = {
    "engine": "verl",
    "models": {
        "small": {
            "scratch": {
                **{"hidden_size": 128, "layers": 4, "heads": 4, "feed_forward": 384},
                **{"examples": 100, "batch": 10, "steps": 1},
            }
        }
    },
    "training": {
        **{"steps": STEPS, "prompts_per_step": 20, "mini_batch_prompts": 10},
        "checkpoint_every": STEPS,
    },
    "sampling": {"max_response_tokens": 40},
    "grid": {
        **{"main": None, "scalability": None, "model_size": None, "max_at_k": None},
        "grpo": {"cells": [{"model": "small", "objective": "grpo", "n": 8}]},
    },
}


def run() -> list[Row]:
    what = "verl's step, GRPO, 160 responses of up to 40 tokens"
    try:
        require_version()
    except InputError as error:
        return [Row(what, f"not measured: {error}")]
    with tempfile.TemporaryDirectory() as name:
        found = _times(Path(name))
    rows = []
    for clock in ("cpu", "wall"):
        ours, stock = (median(step[clock] for step in found[who]) for who in ("ours", "stock"))
        of = "processor time" if clock == "cpu" else "clock"
        rows.append(Row(f"{what}, {of}", readable(stock)))
        bar = f"<= {BAR}" if clock == "cpu" else ""
        holds = clock != "cpu" or ours / stock <= BAR
        rows.append(Row(f"this project's step / verl's, {of}", f"{ours / stock:.3f}", bar, holds))
    return rows


def _times(folder: Path) -> dict[str, list[dict[str, float]]]:
    """Seconds of each step by who made it, from a run in a process of its own."""
    experiment = Experiment.load("tiny", OVERRIDES)
    experiment = Experiment(experiment.scale, experiment.config, folder, folder)
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
    found: dict[str, list[dict[str, float]]] = json.loads(times.read_text())
    return found


def train(folder: str) -> None:
    """The run itself, in a process of its own: verl with a trainer that takes turns."""
    os.environ["VERL_PLATFORM"] = "cpu"
    os.environ["VERL_USE_EXTERNAL_MODULES"] = "rspo.training.verl.cpu_platform"
    os.environ["OMP_NUM_THREADS"] = "1"
    import ray
    from omegaconf import OmegaConf
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    from rspo.training.verl.task import Task
    from rspo.training.verl.verl_config import verl_config

    experiment = Experiment.load("tiny", OVERRIDES)
    experiment = Experiment(experiment.scale, experiment.config, Path(folder), Path(folder))
    config = verl_config(experiment, CELL)
    config.algorithm.adv_estimator = "grpo"  # of verl's own steps; ours do not look at it
    settings: Any = OmegaConf.to_container(config.ray_kwargs.ray_init)
    settings["runtime_env"] = get_ppo_ray_runtime_env(config)
    ray.init(**settings, _temp_dir=tempfile.mkdtemp(prefix="ray-", dir=folder))
    try:
        task = Task()
        task.trainer_class = taking_turns()
        task.run(config)
    finally:
        ray.shutdown()


def taking_turns() -> Any:
    """A trainer whose odd steps are this project's and whose even ones are verl's own.

    Made here because its parts can be imported only once verl's platform is chosen.
    """
    import psutil
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    from rspo.rewards.verdict import CORRECT, INCORRECT, Verdict
    from rspo.training.records import judge
    from rspo.training.verl.batches import fields, on_last_token, put_fields, response_tokens
    from rspo.training.verl.trainer import Trainer

    def every_second(responses: list[str], *_: Any, **__: Any) -> list[Verdict]:
        """Right and wrong in every group, so that no response is without a weight."""
        reasons = (CORRECT, INCORRECT)
        return [Verdict(reasons[place % 2]) for place in range(len(responses))]

    class TakingTurns(Trainer):
        def __init__(self, config: Any, verify: Any) -> None:
            super().__init__(config, every_second)
            self.times: dict[str, list[dict[str, float]]] = {"ours": [], "stock": []}

        def _step_once(self, *arguments: Any) -> Any:
            ours = self.global_steps % 2 == 1
            step = super()._step_once if ours else self._step_of_verl
            cpu, wall = _cpu_seconds(), time.perf_counter()
            batch = step(*arguments)
            taken = {"cpu": _cpu_seconds() - cpu, "wall": time.perf_counter() - wall}
            if self.global_steps > 2:
                self.times["ours" if ours else "stock"].append(taken)
            Path(os.environ[TIMES]).write_text(json.dumps(self.times))
            return batch

        def _step_of_verl(self, *arguments: Any) -> Any:
            return PPOTrainerSync._step_once(self, *arguments)

        def _balance_batch(self, batch: Any, metrics: Any, **more: Any) -> Any:
            """Between verl's sampling and the rest of its step: the same rewards, at once."""
            tokens = response_tokens(fields(batch, "responses"))
            dataset = self.train_dataset
            rows = [dataset.rows[int(place)] for place in fields(batch, "index")["index"]]
            correct = judge(tokens, rows, dataset.prompts, self.chat, self.verify)
            rewards = correct.astype(float).tolist()
            put_fields(batch, {"rm_scores": on_last_token(rewards, [len(ids) for ids in tokens])})
            return super()._balance_batch(batch, metrics, **more)

    def _cpu_seconds() -> float:
        """Of this process and everything below it: the actor, the queue, the server, Ray."""
        total = 0.0
        for process in [me, *me.children(recursive=True)]:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return total

    me = psutil.Process()
    return TakingTurns
