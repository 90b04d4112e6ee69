"""MATH in JSON lines, with the columns of the Hugging Face hub -> verl's Parquet files.

    python prepare_data.py MIRROR OUTPUT

reads MIRROR/<hub id>/<split>.jsonl, with the hub's columns, and writes OUTPUT/{train,test}.parquet.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from verl.utils.reward_score.math_reward import last_boxed_only_string, remove_boxed

HUB_ID = "DigitalLearningGmbH/MATH-lighteval"  # verl's default reward knows its answers
INSTRUCTION = "Let's think step by step and output the final answer within \\boxed{}."


def rows(file: Path, split: str) -> Iterator[dict]:
    """Problems with a boxed answer."""
    with file.open(encoding="utf-8") as lines:
        for index, line in enumerate(lines):
            row = json.loads(line)
            box = last_boxed_only_string(row["solution"])
            if box is None or not remove_boxed(box):
                continue
            yield {
                "data_source": HUB_ID,
                "prompt": [{"role": "user", "content": f"{row['problem']} {INSTRUCTION}"}],
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": remove_boxed(box)},
                "extra_info": {"split": split, "index": index},
            }


def main(mirror: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        frame = pd.DataFrame(rows(mirror / HUB_ID / f"{split}.jsonl", split))
        frame.to_parquet(output / f"{split}.parquet")
        print(f"{split}: {len(frame)} problems")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
