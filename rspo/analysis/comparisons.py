"""Descriptions of comparisons, which follow from the config before anything is measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rspo.config.experiment import BASE, Cell
from rspo.config.schema import POOLED
from rspo.objectives import OBJECTIVES

# pass_at_k and max_at_k come from scores, the other two from training logs: the entropy late in
# training, and the time that dropping responses of weight 0 saves, relative to the time of the
# training that drops them.
Quantity = Literal["pass_at_k", "max_at_k", "entropy", "time_of_dropping"]


@dataclass(frozen=True)
class Method:
    """Policies that differ only in the training seed, or a base policy: one line of a figure.

    policies: in the order of their seeds; none in a figure of formulas. A base method has one
        policy, or with `base_per_seed` one for each training seed.
    k: None for objectives without k, and for base policies.
    n: responses per prompt in training; None for base policies and in figures of formulas.
    variant: name of the settings; in a study of several models, name of the model instead.
    place: position among the lines of a figure with the same objective and k. The line with the
        usual n, model and variant, or the only line, has 0; lines before it have negative numbers.
    """

    label: str
    policies: tuple[str, ...] = ()
    objective: str = BASE
    k: int | None = None
    n: int | None = None
    variant: str = ""
    place: int = 0

    @classmethod
    def for_cell(cls, cell: Cell, policies: Sequence[str], label: str, **more: Any) -> "Method":
        """The method of a cell and its other seeds.

        Args:
            policies: the cell and those that differ from it only in the seed.
            more: further fields, or other values for `k`, `n` and `variant`.
        """
        k = cell.k if OBJECTIVES[cell.objective].has_k else None
        settings = {"k": k, "n": cell.n, "variant": cell.variant} | more
        return cls(label, tuple(policies), cell.objective, **settings)

    @property
    def trained(self) -> bool:
        return self.objective != BASE

    @property
    def varies(self) -> bool:
        """Whether each training seed has a policy of its own: a base policy may serve all seeds."""
        return self.trained or len(self.policies) > 1

    @property
    def objective_k_n(self) -> tuple[str, int | None, int | None]:
        """What the variants of a method have in common."""
        return self.objective, self.k, self.n


@dataclass(frozen=True)
class Term:
    """weight * a method's Pass@k (or Max@k), averaged over `ks`; no `ks` for training logs."""

    method: Method
    weight: float
    ks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """A sum of terms, such as one method minus another, averaged over problems.

    method_a, method_b: labels of what is compared; an empty `method_b` if the value is the level of
        one method, not a difference.
    where: "pooled", or a benchmark.
    benchmarks: those that `where` names; none for a comparison of training logs.
    against: benchmarks whose mean is subtracted from that of `benchmarks`.
    decides: whether a claim's verdict depends on it; if not, it is for information.
    margin: None if the claim says that the value is above 0; otherwise, it says that the value is
        between -margin and margin.
    tie_margin: values between -tie_margin and tie_margin are a tie, which is tested in addition to
        the claim; None if no tie is tested.
    claim, variant: the claim and the variant that the comparison is about; empty if it is about
        none.
    family: name of the tests with which its p-value is adjusted. If it is empty, the comparison of
        a study is not tested.
    runs: the terms to sum for each run. Runs are independent, and the value is their mean. If it
        is empty, `terms` are summed within each training seed, and seeds are independent.
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
    tie_margin: float | None = None
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


def difference(first: Method, second: Method, ks: Sequence[int], weight: float = 1) -> list[Term]:
    """The terms of the first method minus the second, averaged over `ks`."""
    return [Term(first, weight, tuple(ks)), Term(second, -weight, tuple(ks))]
