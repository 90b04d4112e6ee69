"""The comparison of another verifier with that of the scores."""

import itertools
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

from rspo.config import steps
from rspo.core.errors import InputError
from rspo.core.tables import PROBLEMS, read_csv, write_table
from rspo.evaluation.agreement import agreement, agreement_of
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


def test_the_first_samples_are_compared_and_the_differing_ones_listed(tmp_path: Path) -> None:
    experiment, policy = tiny_world.load(tmp_path), "small--base"
    benchmarks = experiment.benchmarks_of("standard")
    texts = [r"\boxed{5}", r"\boxed{05}", r"\boxed{5.0}"]  # the third sample is not compared
    rows = [sample("p0", index, text) for index, text in enumerate(texts)]
    for benchmark in benchmarks:
        write_table(experiment.problems(benchmark), PROBLEMS, [problem("p0", ["5"])])
        steps.prepare(experiment, benchmark).record()
    write_samples(experiment, policy, "standard", dict.fromkeys(benchmarks, rows))
    score(experiment, policy, "standard")
    out = tmp_path / "differing.csv"
    names, table, written = agreement(experiment, policy, "standard", "rules", 2, out)
    assert (names, written) == ("a: exact, b: rules", f"wrote {out}")
    head, *lines = map(str.split, table.splitlines())
    assert [line[0] for line in lines] == benchmarks
    for line in lines:
        found = dict(zip(head, line, strict=True))
        counts = [found[name] for name in ("responses", "both_correct", "only_b_correct")]
        assert counts == ["2", "1", "1"]
        assert found["agreement"] == "0.500"
    differing = read_csv(out)
    assert list(differing["text"]) == [r"\boxed{05}"] * len(benchmarks)
    assert set(differing["verdict"]) == {"incorrect"}
    assert set(differing["verdict_of_other"]) == {"correct"}
    for taken in (out, tmp_path, experiment.scores(policy, "standard", 0)):
        with pytest.raises(InputError, match="expected a new file that ends"):
            next(agreement(experiment, policy, "standard", "rules", 2, taken))
    other = tiny_world.load(tmp_path, verifier="math_verify")
    with pytest.raises(InputError, match=r"made with other settings \(verifier: .*exact"):
        next(agreement(other, policy, "standard", "rules"))


@pytest.mark.parametrize("verifier", ["exact", "rule"])
def test_a_verifier_that_is_unknown_or_that_of_the_scores_is_refused(
    tmp_path: Path, verifier: str
) -> None:
    experiment = tiny_world.load(tmp_path)
    with pytest.raises(InputError, match=f"verifier '{verifier}'; .*llowed: rules, math_verify"):
        next(agreement(experiment, "small--base", "standard", verifier))
