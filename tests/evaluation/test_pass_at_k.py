"""Pass@k of any verified responses: the same estimates from JSON lines, Parquet and CSV."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rspo.core.errors import InputError
from rspo.core.files import write_json_lines
from rspo.core.tables import CURVES, SCORES, read_csv, read_frame, write_csv, write_table
from rspo.evaluation.pass_at_k import pass_at_k_of_file
from tests.support.exact import max_at_k_estimate
from tests.support.table_rows import Row, random_scores

HEADER = "problem_id,sample_index,correct,verifier,verdict,reward\n"


def of_linear(rows: list[Row]) -> list[Row]:
    return [{"benchmark": "linear"} | row for row in rows]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_every_format_gives_the_same_curve(tmp_path: Path, suffix: str) -> None:
    rows = random_scores(3)
    source, output = tmp_path / f"mine{suffix}", tmp_path / "curve.parquet"
    if suffix == ".csv":
        renamed = pd.DataFrame(rows).rename(columns={"problem_id": "problem"})
        write_csv(source, renamed[["reward", "problem", "correct", "verifier"]])
    elif suffix == ".jsonl":
        write_json_lines(source, [row | {"problem": row["problem_id"]} for row in rows])
    else:
        write_table(source, SCORES, of_linear(rows))
    pass_at_k_of_file(source, output)
    frame = read_frame(output, CURVES)
    pass_at_k_of_file(source, output.with_suffix(".csv"))
    written = read_csv(output.with_suffix(".csv")).astype(frame.dtypes)
    pd.testing.assert_frame_equal(written, frame, check_exact=True)
    assert set(frame["k"]) == {1, 2, 4, 8}
    assert set(frame["cell"]) == {"mine"}
    rewards = np.array([row["reward"] for row in rows]).reshape(6, 8)
    estimates = frame[frame["metric"] == "max_at_k"].set_index("k")["estimate"]
    for k in (1, 2, 4, 8):
        exact = [float(max_at_k_estimate(values, k)) for values in rewards.tolist()]
        assert estimates[k] == pytest.approx(np.mean(exact))


def test_bad_scores_are_refused(tmp_path: Path) -> None:
    source, output = tmp_path / "mine.csv", tmp_path / "curve.csv"
    with pytest.raises(InputError, match=r"mine\.csv: no such file"):
        pass_at_k_of_file(source, output)
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
            pass_at_k_of_file(source, output)
    for bad in (tmp_path / "curve.xlsx", source, tmp_path / "." / source.name):
        with pytest.raises(InputError, match=r"expected another file than the input, \.parquet or"):
            pass_at_k_of_file(source, bad)
    write_table(tmp_path / "mine.parquet", SCORES, of_linear(random_scores(3)))
    with pytest.raises(InputError, match="k = 9; allowed: 1 to 8, the largest number"):
        pass_at_k_of_file(tmp_path / "mine.parquet", output, [9])
    assert not output.exists()


def test_verdicts_without_rewards_have_no_max_at_k(tmp_path: Path) -> None:
    source, output = tmp_path / "mine.jsonl", tmp_path / "curve.csv"
    verdicts = {"p": (True, False, 1), "q": (0, 1)}  # 1 and 0 are verdicts too
    rows = [{"problem": p, "correct": value} for p, values in verdicts.items() for value in values]
    write_json_lines(source, rows)
    assert pass_at_k_of_file(source, output, [1, 3]) == [
        'k = 3 leaves out 1 problem with fewer responses, such as "q"'
    ]
    frame = read_csv(output)
    assert {*frame["metric"]} == {"pass_at_k", "pass_hat_k"}
    first = frame[(frame["metric"] == "pass_at_k") & (frame["k"] == "1")].iloc[0]
    assert float(first["estimate"]) == pytest.approx((2 / 3 + 1 / 2) / 2)
    write_json_lines(source, [{"problem": "p", "correct": 2}])
    with pytest.raises(InputError, match="'correct' is 2; expected true or false, or 1 or 0"):
        pass_at_k_of_file(source, output)
