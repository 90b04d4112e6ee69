"""The comparisons of a claim: descriptions, made from the config before anything is measured."""

from dataclasses import dataclass, field

from rspo.config.names import Metric


@dataclass(frozen=True)
class Method:
    """Policies that differ only in the training seed, or a base policy.

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
    """A sum of terms, averaged over problems; the claim says that it is above 0.

    label: such as "RSPO k=4 - Baseline k=4".
    where: "pooled", or a benchmark.
    decides: whether the claim's verdict depends on it; if not, it is for information.
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
        return tuple(dict.fromkeys(name for term in self.terms for name in term.method.policies))

    @property
    def ks(self) -> tuple[int, ...]:
        return tuple(sorted({k for term in self.terms for k in term.ks}))


@dataclass(frozen=True)
class EntropyComparison:
    """Entropy late in training: the second method minus the first; the claim says above 0."""

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
    """Relative time that keeping all responses would add to training; the claim says above 0."""

    label: str
    cells: tuple[str, ...]
    decides: bool = True
    margin: None = field(default=None, init=False)

    @property
    def policies(self) -> tuple[str, ...]:
        return self.cells


Comparison = ScoreComparison | EntropyComparison | DroppingComparison
