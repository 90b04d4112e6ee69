"""The tables that compare two verifiers."""

import itertools
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from rspo.config import steps
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, read_csv, write_table
from rspo.evaluation.agreement import agreement_of, write_agreement
from rspo.evaluation.score import score
from tests.support import tiny_world
from tests.support.table_rows import problem, sample, write_samples


@pytest.mark.parametrize("counts", [(5, 2, 1, 7), (3, 0, 0, 4), (0, 4, 4, 0), (1, 2, 3, 0)])
def test_kappa_is_agreement_beyond_that_of_shuffled_verdicts(
    counts: tuple[int, int, int, int],
) -> None:
    """Chance by enumeration: every verdict of a with every verdict of b."""
    kinds = [(True, True), (True, False), (False, True), (False, False)]
    verdicts = [pair for pair, count in zip(kinds, counts, strict=True) for _ in range(count)]
    shuffled = [a == b for (a, _), (_, b) in itertools.product(verdicts, verdicts)]
    chance = Fraction(sum(shuffled), len(shuffled))
    observed = Fraction(sum(a == b for a, b in verdicts), len(verdicts))
    result = agreement_of(*(pd.Series(one) for one in zip(*verdicts, strict=True)))
    assert result["agreement"] == pytest.approx(float(observed), rel=1e-12)
    assert result["kappa"] == pytest.approx(float((observed - chance) / (1 - chance)), rel=1e-9)
    assert result["responses"] == len(verdicts)


def test_the_tables_count_and_show_what_differs(tmp_path: Path) -> None:
    experiment = tiny_world.load(tmp_path, agreement={"against": "rules", "samples": 2})
    texts = [r"\boxed{5}", r"\boxed{05}", r"\boxed{5.0}"]  # the third sample is not compared
    rows = [sample("p0", index, text) for index, text in enumerate(texts)]
    compared = []
    for policy, suite in experiment.evaluations:
        if policy not in experiment.cells:
            benchmarks = experiment.benchmarks_of(suite)
            compared += [(policy, benchmark) for benchmark in benchmarks]
            for benchmark in benchmarks:
                write_table(experiment.problems(benchmark), PROBLEMS, [problem("p0", ["5"])])
                steps.prepare(experiment, benchmark).record()
            write_samples(experiment, policy, suite, dict.fromkeys(benchmarks, rows))
            score(experiment, policy, suite)
    write_agreement(experiment)

    found = read_csv(experiment.table("agreement")).to_dict("records")
    assert [(row["policy"], row["benchmark"]) for row in found] == compared
    for row in found:
        assert (row["verifier_a"], row["verifier_b"]) == ("exact", "rules")
        counts = [row[name] for name in ("responses", "both_correct", "only_b_correct")]
        assert counts == ["2", "1", "1"]
        assert row["agreement"] == "0.5"
    differing = read_csv(experiment.table("disagreements")).to_dict("records")
    assert len(differing) == len(found)
    assert differing[0]["response"] == r"\boxed{05}"
    assert (differing[0]["verdict_a"], differing[0]["verdict_b"]) == ("incorrect", "correct")


def test_a_verifier_is_not_compared_with_itself(tmp_path: Path) -> None:
    experiment = tiny_world.load(tmp_path, agreement={"against": "exact"})
    with pytest.raises(InputError, match=r"agreement\.against = 'exact' is the verifier of"):
        write_agreement(experiment)
