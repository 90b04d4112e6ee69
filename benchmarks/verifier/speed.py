"""Real responses per second that the verifier `rules` verifies, with one worker per core.

The responses are labelled answers in the folder `shared` next to the checkout. Without them,
nothing is measured. Times are wall-clock times, because other processes do the work.
"""

import json
import time
from pathlib import Path
from statistics import median

from benchmarks import Row
from rspo.rewards import is_correct

RESPONSES = Path(__file__).parents[3] / "shared" / "verification" / "qwen_math_cot_100.jsonl"
REPEATS = 5


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
