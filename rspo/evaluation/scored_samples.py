"""A policy's samples with their scores and problems, joined."""

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, SAMPLES, SCORES, read_frame

KEY = ["problem_id", "sample_index"]


def scored_samples(
    experiment: Experiment, policy: str, benchmark: str, first: int | None = None
) -> pd.DataFrame:
    """A row for each sample, in file order, with the columns of SAMPLES, SCORES and PROBLEMS.

    Args:
        first: only the first so many samples of each problem.

    Raises: InputError for tables that are missing, or do not belong together.
    """
    sample_files = experiment.sample_files(policy, benchmark, first)
    score_files = experiment.score_files(policy, benchmark, first)
    samples = pd.concat([read_frame(file, SAMPLES) for file in sample_files], ignore_index=True)
    scores = pd.concat([read_frame(file, SCORES) for file in score_files], ignore_index=True)
    problems = read_frame(experiment.problems(benchmark), PROBLEMS).rename(
        columns={"id": "problem_id"}
    )
    known = samples["problem_id"].isin(problems["problem_id"]).all()
    if not samples[KEY].equals(scores[KEY]) or not known:
        raise InputError(
            f"{score_files[0].parent}: samples, scores and problems do not belong together; "
            "make them again"
        )
    joined = samples.join(scores.drop(columns=KEY)).merge(problems, how="left", on="problem_id")
    return joined if first is None else joined[joined["sample_index"] < first]
