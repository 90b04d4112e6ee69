"""Read verified responses: what `rspo verify` writes, or any table with verdicts or rewards."""

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from rspo.core.errors import InputError
from rspo.core.files import numbered_json_lines, open_file
from rspo.evaluation.outcomes import Outcomes
from rspo.evaluation.score_arrays import read_score_frame

TABLES = (".parquet", ".csv")


def read_outcomes(path: Path) -> Outcomes:
    """Outcomes of a scores table (.parquet or .csv), or of JSON lines.

    Each line is one response with the keys `problem` (text), `correct` (true or false, or 1 or 0)
    and optionally `reward` (default: 1 if correct, else 0) and `extracted` (the answer, or null).
    Problems are in the order of the file, in a table sorted by id.

    Raises: InputError for a file that is missing, empty or damaged, or a value that is missing or
        of the wrong type.
    """
    if path.suffix in TABLES:
        return _outcomes_of_table(path)
    correct, rewards, answers = defaultdict(list), defaultdict(list), defaultdict(list)
    has_rewards = has_answers = True
    for number, line in numbered_json_lines(path, open_file(path)):
        location = f"{path}, line {number}"
        for key in ("problem", "correct"):
            if key not in line:
                has = ", ".join(line) or "no keys"
                raise InputError(
                    f"{location}: the key {key!r} is missing; has {has} "
                    "(`rspo verify` makes a file with verdicts from responses)"
                )
        _require(isinstance(line["problem"], str), location, line, "problem", "text")
        is_verdict = isinstance(line["correct"], int) and line["correct"] in (0, 1)
        _require(is_verdict, location, line, "correct", "true or false, or 1 or 0")
        has_rewards = has_rewards and "reward" in line
        reward = line.get("reward", float(line["correct"]))
        if isinstance(reward, bool) or not isinstance(reward, int | float):
            raise InputError(f"{location}: 'reward' is {reward!r:.60}; expected a number")
        if not math.isfinite(reward):
            raise InputError(f"{location}: 'reward' is {reward}; must be finite")
        has_answers = has_answers and "extracted" in line
        answer = line.get("extracted")
        correct[line["problem"]].append(line["correct"])
        answers[line["problem"]].append(None if answer is None else str(answer))
        rewards[line["problem"]].append(reward)
    if not correct:
        raise InputError(f"{path}: has no lines; at least one verified response is needed")
    return Outcomes(
        tuple(correct),
        [np.array(values, dtype=bool) for values in correct.values()],
        [np.array(values, dtype=np.float64) for values in rewards.values()],
        (len(correct),),
        has_rewards,
        list(answers.values()) if has_answers else None,
    )


def _require(holds: bool, location: str, line: dict[str, Any], key: str, expected: str) -> None:
    if not holds:
        raise InputError(f"{location}: {key!r} is {line[key]!r:.60}; expected {expected}")


def _outcomes_of_table(path: Path) -> Outcomes:
    frame = read_score_frame(path).sort_values(["problem_id", "sample_index"])
    groups = frame.groupby("problem_id")
    correct = {name: values.to_numpy(dtype=bool) for name, values in groups["correct"]}
    rewards = [values.to_numpy(dtype=np.float64) for _, values in groups["reward"]]
    return Outcomes(tuple(correct), list(correct.values()), rewards, (len(correct),))
