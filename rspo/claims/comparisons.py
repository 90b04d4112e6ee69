"""What a claim compares: plain descriptions, made from the config before anything is measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from rspo.config.experiment import Experiment

Metric = Literal["pass_at_k", "max_at_k"]


@dataclass(frozen=True)
class Method:
    """Policies that differ in nothing but the training seed, or a base policy.

    policies: in order of their seeds.
    """

    label: str
    policies: tuple[str, ...]
    trained: bool = True


@dataclass(frozen=True)
class Term:
    """weight * the mean over `ks` of a method's Pass@k (or Max@k)."""

    method: Method
    weight: float
    ks: tuple[int, ...]


@dataclass(frozen=True)
class ScoreComparison:
    """A sum of terms, averaged over problems, that a claim says is above 0.

    label: what it is, such as "RSPO k=4 - Baseline k=4".
    where: "pooled", or the one benchmark.
    decides: whether the claim's verdict rests on it; if not, it is there to be read.
    margin: if given, the claim says instead that the value is between -margin and margin.
    """

    label: str
    metric: Metric
    where: str
    benchmarks: tuple[str, ...]
    terms: tuple[Term, ...]
    decides: bool = True
    margin: float | None = None

    @property
    def policies(self) -> tuple[str, ...]:
        found = (policy for term in self.terms for policy in term.method.policies)
        return tuple(dict.fromkeys(found))

    @property
    def ks(self) -> tuple[int, ...]:
        return tuple(sorted({k for term in self.terms for k in term.ks}))


@dataclass(frozen=True)
class EntropyComparison:
    """Entropy late in training of the second method minus that of the first: above 0."""

    label: str
    lower: Method
    higher: Method
    decides: bool = True
    margin: None = field(default=None, init=False)

    @property
    def policies(self) -> tuple[str, ...]:
        return self.lower.policies + self.higher.policies


@dataclass(frozen=True)
class DroppingComparison:
    """Time that keeping all would add to a training, over what it took, mean of cells: above 0."""

    label: str
    cells: tuple[str, ...]
    decides: bool = True
    margin: None = field(default=None, init=False)

    @property
    def policies(self) -> tuple[str, ...]:
        return self.cells


Comparison = ScoreComparison | EntropyComparison | DroppingComparison


def inputs_of(experiment: "Experiment", comparisons: Sequence[Comparison]) -> list["Path"]:
    """The files that comparisons are measured from, each once."""
    scores = dict.fromkeys(
        (term.method, benchmark)
        for comparison in comparisons
        if isinstance(comparison, ScoreComparison)
        for term in comparison.terms
        for benchmark in comparison.benchmarks
    )
    trained = dict.fromkeys(
        cell
        for comparison in comparisons
        if not isinstance(comparison, ScoreComparison)
        for cell in comparison.policies
    )
    found = [
        *(
            file
            for method, benchmark in scores
            for policy in method.policies
            for file in experiment.score_files(policy, benchmark)
        ),
        *(experiment.training_log(cell) for cell in trained),
    ]
    return list(dict.fromkeys(found))
