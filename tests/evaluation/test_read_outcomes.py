"""Outcomes of any verified responses: the same from JSON lines, Parquet and CSV."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rspo.core.errors import InputError
from rspo.core.files import write_json_lines
from rspo.core.tables import SCORES, write_csv, write_table
from rspo.evaluation.read_outcomes import read_outcomes
from tests.support.table_rows import random_scores

HEADER = "problem_id,sample_index,correct,verifier,verdict,reward\n"


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_every_format_gives_the_same_outcomes(tmp_path: Path, suffix: str) -> None:
    rows = random_scores(3)
    source = tmp_path / f"mine{suffix}"
    if suffix == ".csv":
        renamed = pd.DataFrame(rows).rename(columns={"problem_id": "problem"})
        write_csv(source, renamed[["reward", "problem", "correct", "verifier"]])
    elif suffix == ".jsonl":
        write_json_lines(source, [row | {"problem": row["problem_id"]} for row in rows])
    else:
        write_table(source, SCORES, [{"benchmark": "linear"} | row for row in rows])
    found = read_outcomes(source)
    assert found.ids == tuple(f"p{number}" for number in range(6))
    assert found.has_rewards
    for name, column in (("correct", found.correct), ("reward", found.rewards)):
        assert column.tolist() == np.array([row[name] for row in rows]).reshape(6, 8).tolist()


def test_bad_scores_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "mine.csv"
    with pytest.raises(InputError, match=r"mine\.csv: no such file"):
        read_outcomes(source)
    for text, message in (
        ("", r"mine\.csv: has no rows"),
        (
            "problem_id,sample_index\np,0\n",
            "line 2: the key 'correct' is missing; has problem_id, sample_index",
        ),
        (HEADER + "p,0,maybe,x,y,1\n", "line 2: 'correct' is \"maybe\"; expected true or false"),
        (HEADER + "p,0,true,x,y,nan\n", "line 2: 'reward' is NaN; expected a finite number"),
        (HEADER + "p,,true,x,y,1\n", "line 2: 'sample_index' is \"\"; expected a whole number"),
        (HEADER + "p,0,true,x,y,1\n" * 2, "line 3: sample 0 of problem 'p' is duplicated"),
    ):
        source.write_text(text)
        with pytest.raises(InputError, match=message):
            read_outcomes(source)


def test_verdicts_without_rewards_have_no_max_at_k(tmp_path: Path) -> None:
    source = tmp_path / "mine.jsonl"
    verdicts = {"p": (True, False, 1), "q": (0, 1)}  # 1 and 0 are verdicts too
    rows = [{"problem": p, "correct": value} for p, values in verdicts.items() for value in values]
    write_json_lines(source, rows)
    found = read_outcomes(source)
    assert not found.has_rewards
    assert found.ids == ("p", "q")
    assert found.correct.tolist() == [[True, False, True], [False, True, False]]
    assert found.responses.tolist() == [3, 2]
    with pytest.raises(InputError, match="has no rewards, which Max@k needs"):
        found.estimates("max_at_k", 1)
    write_json_lines(source, [{"problem": "p", "correct": 2}])
    with pytest.raises(InputError, match="'correct' is 2; expected true or false, or 1 or 0"):
        read_outcomes(source)
