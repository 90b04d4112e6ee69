"""What is compared: descriptions, made from the config before anything is measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rspo.config.schema import POOLED

# pass_at_k and max_at_k are read from scores, the others from training logs: the entropy late in
# training, and the relative time that keeping all responses would add to training.
Quantity = Literal["pass_at_k", "max_at_k", "entropy", "time_of_dropping"]


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
    """weight * a method's Pass@k (or Max@k), averaged over `ks`; no `ks` for training logs."""

    method: Method
    weight: float
    ks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """A sum of terms, such as one method minus another, averaged over problems.

    method_a, method_b: what is compared; without `method_b`, the level of one method.
    where: "pooled", or a benchmark.
    against: benchmarks whose mean is subtracted from that of `benchmarks`.
    decides: whether a claim's verdict depends on it; if not, it is for information.
    margin: a claim says that the value is above 0, or with a margin, between -margin and margin.
    claim, variant: that it is about, if any.
    family: the tests that its p-value is adjusted with; empty: it is not tested.
    runs: terms whose sum is one run's value; runs are independent, and the value is their mean.
        Empty: seeds are independent, and methods too.
    """

    method_a: str
    method_b: str
    metric: Quantity
    terms: tuple[Term, ...]
    where: str = POOLED
    benchmarks: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    decides: bool = True
    margin: float | None = None
    claim: str = ""
    variant: str = ""
    family: str = ""
    runs: tuple[tuple[Term, ...], ...] = ()

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for term in self.terms for name in term.method.policies))

    @property
    def ks(self) -> tuple[int, ...]:
        return tuple(sorted({k for term in self.terms for k in term.ks}))

    @property
    def of_scores(self) -> bool:
        """Whether it is measured on test problems, rather than on training logs."""
        return self.metric in ("pass_at_k", "max_at_k")


def difference(one: Method, other: Method, ks: Sequence[int], weight: float = 1) -> list[Term]:
    return [Term(one, weight, tuple(ks)), Term(other, -weight, tuple(ks))]
