"""Verdicts per second with one worker per core and with one worker; a worker's start and memory.

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
    responses = [row["output"] for row in lines]
    answers = [row["gold"] for row in lines]
    # A box that equals the answer does not reach a worker, unless a space is added to the answer.
    spaced = [f"\\,{answer}" for answer in answers]
    speed = _rows_per_second(responses, answers)
    workers_only = _rows_per_second(responses, spaced)
    return [
        Row(what, f"{speed:,.0f} rows/s", ">= 250 rows/s", speed >= 250),
        Row("the same, no answer identical to the reference", f"{workers_only:,.0f} rows/s"),
    ]


def _rows_per_second(responses: list[str], answers: list[str]) -> float:
    is_correct(responses, answers)  # starts the workers
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        is_correct(responses, answers)
        seconds.append(time.perf_counter() - start)
    return len(responses) / median(seconds)


def rows_of_one_worker() -> list[Row]:
    """Ask for one verdict at a time, as verl does, so that one worker gives all of them."""
    result = []
    for verifier in ("rules", "math_verify"):
        sandbox.close()
        is_correct(["\\boxed{1 + 1}"], ["3"], verifier)  # also imports what it needs later
        children = psutil.Process().children()
        (worker,) = [child for child in children if "sandbox_worker" in " ".join(child.cmdline())]
        what = f"one worker of {verifier}"
        result.append(Row(f"{what}: start, processor time", readable(_cpu_seconds(worker))))
        for name in ONE_WORKER:
            answered = labelled(name)
            if answered is None:
                continue
            before = _cpu_seconds(worker)
            for response, answer in zip(answered.responses, answered.answers, strict=True):
                is_correct([response], [f"\\,{answer}"], verifier)
            speed = len(answered.responses) / (_cpu_seconds(worker) - before)
            measured = f"{speed:,.0f} verdicts per second of processor time"
            result.append(Row(f"{what}: {SETS[name]}", measured))
        megabytes = worker.memory_info().rss / 1e6
        result.append(Row(f"{what}: memory after these", f"{megabytes:.0f} MB"))
    return result


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
