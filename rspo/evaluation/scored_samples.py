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
    suite = experiment.suite_of(benchmark)
    sample_files = experiment.sample_files(policy, suite, first)
    score_files = experiment.score_files(policy, suite, first)
    samples, scores = (
        pd.concat([read_frame(file, table, benchmark) for file in files], ignore_index=True)
        for files, table in ((sample_files, SAMPLES), (score_files, SCORES))
    )
    problems = read_frame(experiment.problems(benchmark), PROBLEMS).rename(
        columns={"id": "problem_id"}
    )
    known = samples["problem_id"].isin(problems["problem_id"]).all()
    if not samples[KEY].equals(scores[KEY]) or not known:
        raise InputError(
            f"{score_files[0].parent}: samples, scores and problems do not belong together; "
            "make them again"
        )
    joined = samples.drop(columns="benchmark").join(scores.drop(columns=["benchmark", *KEY]))
    joined = joined.merge(problems, how="left", on="problem_id")
    return joined if first is None else joined[joined["sample_index"] < first]
