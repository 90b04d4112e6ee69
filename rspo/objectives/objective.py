"""The type of the entries of the registry: an objective, and the rule for its k."""

from dataclasses import dataclass
from enum import Enum

from rspo.passk import WeightFunction


class KRule(Enum):
    """The values of k that an objective accepts for groups of n responses."""

    NONE = "has no k"
    ANY = "k >= 1"
    AT_MOST_N = "1 <= k <= n"
    LESS_THAN_N = "1 <= k < n"
    DIVIDES_N = "k divides n"

    def allows(self, k: int, n: int) -> bool:
        """Whether k is allowed with groups of n responses. KRule.NONE ignores k and allows any."""
        if self is KRule.NONE:
            return True
        if self is KRule.DIVIDES_N:
            return 1 <= k <= n and n % k == 0
        if self is KRule.LESS_THAN_N:
            return 1 <= k < n
        return k >= 1 and (self is KRule.ANY or k <= n)


@dataclass(frozen=True)
class Objective:
    """One way to weight responses.

    name: its name in configs and in `response_weights`.
    function: takes float64 rewards [..., n] and k, and returns weights [..., n].
    k_rule: which values of k it accepts.
    binary: whether rewards must be 0 or 1.
    least_n: the smallest n for which it is defined.
    version: raise this number when a weight changes, so that Snakemake trains its cells again.
    ordered: whether weights depend on the order of the responses.
    peer: whether it comes from another paper. Peers work everywhere, except that figures that show
        every objective leave them out.
    """

    name: str
    function: WeightFunction
    k_rule: KRule
    binary: bool = False
    least_n: int = 1
    version: int = 1
    ordered: bool = False
    peer: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            kind = type(self.function).__name__
            raise TypeError(f"objective {self.name!r}: function must be a function, got a {kind}")
        if not isinstance(self.k_rule, KRule):
            allowed = ", ".join(map(str, KRule))
            raise TypeError(
                f"objective {self.name!r}: k_rule is {self.k_rule!r}; allowed: {allowed}"
            )

    @property
    def has_k(self) -> bool:
        return self.k_rule is not KRule.NONE

    @property
    def built_in(self) -> bool:
        """Whether its function is part of this package."""
        module = getattr(self.function, "__module__", "")
        return module == "rspo.passk" or module.startswith("rspo.objectives.")

    def allows(self, k: int, n: int) -> bool:
        """Whether the objective is defined for this k and groups of n responses.

        An objective without k ignores it, so every k is allowed.
        """
        return n >= self.least_n and self.k_rule.allows(k, n)


def short_name(objective: str) -> str:
    """The name of an objective in the names of cells, such as "rspo-pass" for "rspo_pass_at_k"."""
    return objective.replace("_at_k", "").replace("_", "-")
