"""Real responses a second that `math_verify` judges, on as many workers as there are cores.

The responses are the labelled ones beside the checkout; without them there is nothing to measure.
Unlike elsewhere the clock is the wall's: the work is done by other processes.
"""

import json
import time
from pathlib import Path
from statistics import median

from benchmarks import Row
from rspo.rewards import is_correct

RESPONSES = Path(__file__).parents[2] / "shared" / "verification" / "qwen_math_cot_100.jsonl"
REPEATS = 5


def run() -> list[Row]:
    what = "math_verify, whole responses of a 7B model to MATH-like problems, warm, by the clock"
    if not RESPONSES.exists():
        return [Row(what, f"not measured: {RESPONSES.name} is not here")]
    rows = [json.loads(line) for line in RESPONSES.read_text(encoding="utf-8").splitlines()]
    # A box that holds the answer to the letter never reaches a worker; a space of its own does.
    outputs = [row["output"] for row in rows]
    golds = [row["gold"] for row in rows]
    spaced = [f"\\,{gold}" for gold in golds]
    speed, rules_alone = (_rows_a_second(outputs, answers) for answers in (golds, spaced))
    return [
        Row(what, f"{speed:,.0f} rows/s", ">= 250 rows/s", speed >= 250),
        Row("the same, no answer written to the letter", f"{rules_alone:,.0f} rows/s"),
    ]


def _rows_a_second(outputs: list[str], golds: list[str]) -> float:
    is_correct(outputs, golds)  # starts the workers
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        is_correct(outputs, golds)
        seconds.append(time.perf_counter() - start)
    return len(outputs) / median(seconds)
