"""Verdicts per second, with one worker per core and of one worker; memory and start of a worker.

The responses of a 7B model are labelled answers in the folder `shared` next to the checkout.
Without them, only the answers in this repository are measured. Times of all workers are wall-clock
times, because other processes do the work.
"""

import json
import time
from pathlib import Path
from statistics import median

import psutil

from benchmarks import Row, readable
from benchmarks.verifier.accuracy import SETS, labelled
from rspo.rewards import is_correct, sandbox

RESPONSES = Path(__file__).parents[3] / "shared" / "verification" / "qwen_math_cot_100.jsonl"
REPEATS = 5
ONE_WORKER = ("qwen_math_cot_100", "lighteval_extractive_match_tests")  # none reaches a limit


def rows() -> list[Row]:
    what = "rules, full responses of a 7B model to MATH-like problems, warm, wall-clock time"
    if not RESPONSES.exists():
        return [Row(what, f"not measured: {RESPONSES.name} is missing")]
    lines = [json.loads(line) for line in RESPONSES.read_text(encoding="utf-8").splitlines()]
    # A box that equals the answer does not reach a worker, unless a space is added to the answer.
    outputs = [row["output"] for row in lines]
    golds = [row["gold"] for row in lines]
    spaced = [f"\\,{gold}" for gold in golds]
    speed, workers_only = (_rows_per_second(outputs, answers) for answers in (golds, spaced))
    return [
        Row(what, f"{speed:,.0f} rows/s", ">= 250 rows/s", speed >= 250),
        Row("the same, no answer identical to the reference", f"{workers_only:,.0f} rows/s"),
    ]


def _rows_per_second(outputs: list[str], golds: list[str]) -> float:
    is_correct(outputs, golds)  # starts the workers
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        is_correct(outputs, golds)
        seconds.append(time.perf_counter() - start)
    return len(outputs) / median(seconds)


def rows_of_one_worker() -> list[Row]:
    """One row at a time, as verl asks for them, so that one worker gives all verdicts."""
    result = []
    for verifier in ("rules", "math_verify"):
        sandbox.close()
        is_correct(["\\boxed{1 + 1}"], ["3"], verifier)  # also imports what it needs later
        children = psutil.Process().children()
        (worker,) = (one for one in children if "sandbox_worker" in " ".join(one.cmdline()))
        what = f"one worker of {verifier}"
        result.append(Row(f"{what}: start, processor time", readable(_cpu_seconds(worker))))
        for name in ONE_WORKER:
            if (given := labelled(name)) is None:
                continue
            before = _cpu_seconds(worker)
            for response, answer in zip(given.responses, given.answers, strict=True):
                is_correct([response], [f"\\,{answer}"], verifier)
            speed = len(given.responses) / (_cpu_seconds(worker) - before)
            measured = f"{speed:,.0f} verdicts per second of processor time"
            result.append(Row(f"{what}: {SETS[name]}", measured))
        megabytes = worker.memory_info().rss / 1e6
        result.append(Row(f"{what}: memory after these", f"{megabytes:.0f} MB"))
    return result


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
