"""Pass@k in one file: copy it anywhere; it needs NumPy only. This part: ratios and the check."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
WeightFunction = Callable[[Any, int], Any]  # rewards [..., n] and k -> weights [..., n]


# --- Ratios of binomials -----------------------------------------------------------------------


def fraction_of_subsets_below(n: int, k: int) -> Floats:
    """Fraction of the (k-1)-subsets of n-1 responses that fall into a given m of them.

        fraction[m] = C(m, k-1) / C(n-1, k-1),   m = 0 .. n-1        (1 <= k <= n)

    Computed downwards from fraction[n-1] = 1 as the running product of (m-k+1)/m: neither binomial
    is ever formed (C(4095, 2047) has 1231 digits), so n = 4096 with any k is finite and accurate
    to n rounding errors. Entries below the smallest float64 are 0.

    Returns: float64 of shape [n].
    """
    m = np.arange(n - 1, 0, -1, dtype=np.float64)
    ratios = np.maximum(m - (k - 1), 0.0) / m
    return np.concatenate(([1.0], np.cumprod(ratios)))[::-1]


# --- Whether a function's weights are an unbiased gradient of Pass@k ----------------------------

# The relative error that weights of a dtype may have in groups of up to 16: that of a hundred
# operations and more in float64 and float32, of four in the dtypes of 16 bits.
TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
MOST_TRIED = 16  # responses for which every k is tried
MOST_MIXED = 20  # responses, for `Slope.mixture`: its rounding errors grow with n, to 1e-8 at 20
MOST_TERMS = 4  # of a mixture in words
MOST_SHOWN = 16  # rewards of a group in a message
# Constant factors that have a name, as functions of k and n.
FACTORS: dict[str, Callable[[int, int], float]] = {
    "n": lambda k, n: n,
    "1/n": lambda k, n: 1 / n,
    "k": lambda k, n: k,
    "1/k": lambda k, n: 1 / k,
    "k/n": lambda k, n: k / n,
    "n/k": lambda k, n: n / k,
    "(n-k)/n": lambda k, n: (n - k) / n,
    "(n-k)/k": lambda k, n: (n - k) / k,
    "(n-k+1)/n": lambda k, n: (n - k + 1) / n,
    "(n-k+1)/k": lambda k, n: (n - k + 1) / k,
}


@dataclass(frozen=True)
class Weights:
    """What a function returned: float64 [..., n], and the precision in which it was computed."""

    values: Floats
    precision: str  # a key of TOLERANCE

    @property
    def tolerance(self) -> float:
        return tolerance_of(self.precision, self.values.shape[-1])

    @property
    def rounding(self) -> float:
        """Below this share of the largest weight, a difference is a rounding error."""
        return max(1e-12, 4 * EPSILON[self.precision])

    def agree(self, one: Floats, other: Floats) -> bool:
        """Whether some of these weights are equal to others."""
        scale = float(abs(self.values).max(initial=0.0))
        return np.allclose(one, other, rtol=self.tolerance, atol=self.rounding * scale)


@dataclass(frozen=True)
class Slope:
    """F'(p) of weights, where the expected update follows the gradient of F(p), F(0) = 0.

        F'(p) = sum_m Bin(m; n-1, p) a_m,    a_m = n (w+(m+1) - w-(m)),    m = 0 .. n-1

    w+(c) and w-(c) are the weights of a correct and of a wrong response where c of n are correct,
    p the chance that a response is correct (RL2ML, arXiv 2605.30154).

    coefficients: a_m, [n].
    scale: n times the largest weight; a_m is a difference of numbers of this size.
    """

    coefficients: Floats
    scale: float
    precision: str

    @property
    def tolerance(self) -> float:
        return tolerance_of(self.precision, len(self.coefficients))

    def fits(self, precision: str | None = None) -> list[int]:
        """The j for which F is a positive constant times Pass@j; several if too imprecise to tell.

        The slope of Pass@j, j (1-p)^(j-1), has a_m = j C(n-1-m, j-1) / C(n-1, j-1).
        """
        n, first = len(self.coefficients), float(self.coefficients[0])
        error = tolerance_of(precision or self.precision, n) * max(self.scale, first)
        if first <= error:
            return []
        found = []
        for j in range(1, n + 1):
            second = first * (n - j) / max(n - 1, 1)  # its m = 1, which most j do not fit
            if n == 1 or abs(self.coefficients[1] - second) <= error:
                expected = first * fraction_of_subsets_below(n, j)[::-1]
                if (abs(self.coefficients - expected) <= error).all():
                    found.append(j)
        return found

    @property
    def unbiased_for(self) -> int | None:
        """The one j of `fits`."""
        fits = self.fits()
        return fits[0] if len(fits) == 1 else None

    @property
    def factor(self) -> float:
        """The constant: F = factor Pass@j with j = `unbiased_for`; NaN if there is none."""
        j = self.unbiased_for
        return math.nan if j is None else float(self.coefficients[0]) / j

    @property
    def mixture(self) -> dict[int, float] | None:
        """j -> b_j of F = sum_j b_j Pass@j, without those of 0.

        Newton's forward differences of a_(n-1-t) over t give b_j: C(n-1, j-1)/j times the
        difference of order j-1 at t = 0. None if n > 20, if rounding errors are too large, or if F
        has more than two terms of which one is below 0, which says little.
        """
        n, largest = len(self.coefficients), float(abs(self.coefficients).max())
        epsilon = EPSILON[self.precision]
        if n > MOST_MIXED:
            return None
        if largest <= max(1e-12, 0.0 if epsilon < 1e-15 else 16 * n * epsilon):
            return {}
        smallest = 1e-6 * max(1e-6, largest)
        differences, mixture = self.coefficients[::-1], {}
        for j in range(1, n + 1):
            share = math.comb(n - 1, j - 1) / j
            error = share * 2 ** (j - 1) * 4 * epsilon * max(self.scale, largest)
            if error > 0.005 * largest:
                return None
            b = share * float(differences[0])
            if abs(b) > max(smallest, error):
                mixture[j] = b
            differences = np.diff(differences)
        return mixture if len(mixture) <= 2 or min(mixture.values()) > 0 else None

    @property
    def target(self) -> str:
        """What is maximized, in words."""
        fits, mixture = self.fits(), self.mixture
        if len(fits) > 1:
            return f"undecided in {self.precision}: fits {_passes(fits)}"
        if fits:
            one = _close(self.factor, 1.0, self.tolerance)
            return f"unbiased for {'' if one else f'{self.factor:.4g} times '}Pass@{fits[0]}"
        if mixture is None:
            return "not unbiased for any Pass@k"
        terms = [f"{b:.3g} Pass@{j}" for j, b in mixture.items()]
        if len(terms) > MOST_TERMS:
            terms[3:-1] = ["..."]
        return f"maximizes {' + '.join(terms).replace('+ -', '- ') or 'nothing, F is 0'}"


class Answer(NamedTuple):
    """The answer of `check`, true if it passed; its text says why."""

    passed: bool
    lines: list[str]

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return "\n".join(self.lines)


def check(function: WeightFunction, k: int, n: int, factor: float | None = None) -> Answer:
    """Whether a function's weights are an unbiased gradient of Pass@k, up to a positive factor.

    Computed from the weights of the n + 1 groups of 0/1 rewards; see `Slope`. How exactly depends
    on the dtype that the function returns: its errors of rounding are allowed (`TOLERANCE`). With
    bfloat16, a bias below 3 % cannot be seen, and all k are told apart for n <= 16 only.

    Args:
        function: takes rewards [..., n] (a float64 array) and k, returns weights or advantages
            [..., n] as an array or as a tensor of PyTorch.
        k: as the function gets it, and of the Pass@k that it is checked for.
        n: responses of a group.
        factor: also require that F is this number times Pass@k, such as 1 for weights, n for
            advantages. By default any positive factor passes, but its name is told.

    Returns: whether it passed; and what it maximizes with each k (powers of 2 for n > 16), a line
        each, then the verdict.

    Raises: ValueError where the function fails or returns no weights of this k, with the shape and
        dtype of what it was given; for weights that depend on the order of the responses or on
        other groups; unless k and n are integers of at least 1. Other k that fail are lines.
    """
    require_integers(k=k, n=n)
    groups = binary_groups(n)

    def slope(tried: int) -> Slope:
        return slope_of(exchangeable_weights(function, groups, tried, some_groups(n)))

    return answer_of(slope, k, n, factor)


def answer_of(slope: Callable[[int], Slope], k: int, n: int, factor: float | None = None) -> Answer:
    """The answer of `check` for weights whose slope with each k is known.

    Raises: what `slope` raises for this k.
    """
    ks = range(1, n + 1) if n <= MOST_TRIED else [2**i for i in range(n.bit_length())]
    lines, slopes = [], {}
    for tried in sorted({*ks, k}):
        try:
            slopes[tried] = slope(tried)
            lines.append(f"k = {tried:<3} {slopes[tried].target}")
        except ValueError as error:
            if tried == k:
                raise
            lines.append(f"k = {tried:<3} refused: {error}")
    factors = {j: one.factor for j, one in slopes.items() if one.unbiased_for == j}
    lines += _notes(slopes[k], factors, k)
    of_which = f"unbiased with k = {', '.join(map(str, factors))}" if factors else "with no k"
    verdict, passed = f"not unbiased for Pass@{k} with n = {n}", k in factors
    if passed:
        named = _named(factors, k, n, slopes[k].tolerance)
        verdict = f"unbiased for {named}Pass@{k} with n = {n}"
        if factor is not None and not _close(factors[k], factor, slopes[k].tolerance):
            passed, verdict = False, f"{verdict}, not for {factor:g} times Pass@{k}"
    elif len(slopes[k].fits()) > 1:
        verdict = f"undecided for Pass@{k} with n = {n} in {slopes[k].precision}"
    return Answer(passed, [*lines, f"{verdict}; {of_which}"])


def _named(factors: Mapping[int, float], k: int, n: int, tolerance: float) -> str:
    """The factor of k, with a name that fits every k if there is one; empty for 1."""
    if _close(factors[k], 1.0, tolerance):
        return ""
    for name, value in FACTORS.items() if len(factors) > 1 else ():
        if all(_close(found, value(j, n), tolerance) for j, found in factors.items()):
            return f"{name} = {factors[k]:.4g} times "
    return f"{factors[k]:.4g} times "


def _notes(slope: Slope, factors: Mapping[int, float], k: int) -> Iterable[str]:
    """Lines on a factor that depends on k, and on what the precision cannot decide."""
    tolerance, least = slope.tolerance, min(factors.values(), default=1.0)
    if any(not _close(found, least, tolerance) for found in factors.values()):
        yield "the factor depends on k: each k has a learning rate of its own, also in a sum over k"
    if slope.precision != "float64":
        allowed = f"differences up to {tolerance:.2g} of the largest weight count as rounding"
        yield f"computed in {slope.precision}: {allowed}, so a smaller bias is not seen"
    elif k in slope.fits("float32") and not slope.fits():
        yield "as unbiased as float32 allows: a function that computes in float32 must return it"


def _close(one: float, other: float, tolerance: float) -> bool:
    """Whether two factors are equal but for rounding, or a 1e-6 that is added to a divisor."""
    return math.isclose(one, other, rel_tol=max(1e-6, tolerance))


def tolerance_of(precision: str, n: int) -> float:
    """`TOLERANCE` for groups of n: logarithms of factorials, or sums, lose more in larger ones."""
    return TOLERANCE[precision] * max(1.0, n / 16)


def _passes(ks: list[int]) -> str:
    return " and ".join(f"Pass@{k}" for k in (ks if len(ks) < 3 else [ks[0], ks[-1]]))


def slope_of(weights: Weights) -> Slope:
    """The slope of the weights of `binary_groups(n)`, which do not depend on the order."""
    values, n = weights.values, weights.values.shape[-1]
    m = np.arange(n)
    correct = values[m + 1, 0]  # the first response of a group is correct, the last one wrong
    coefficients = n * (correct - values[m, -1])
    return Slope(coefficients, n * float(abs(values).max()), weights.precision)


def binary_groups(n: int) -> Floats:
    """(n+1, n): row c has c rewards of 1, then rewards of 0."""
    return np.tril(np.ones((n + 1, n)), -1)


def some_groups(n: int) -> list[int]:
    """Rows of `binary_groups` of which each is also tried alone."""
    return sorted({0, 1, n // 2, n - 1, n})


def exchangeable_weights(
    function: WeightFunction, groups: Floats, k: int, alone: Iterable[int]
) -> Weights:
    """The weights of some groups, [groups, n], by a function that treats all responses alike.

    Args:
        alone: groups that it must also give the same weights without the others.

    Raises: ValueError of one line, which names the group.
    """
    name = name_of(function)
    found = weights_of(function, groups, k)
    for place in alone:
        for group in (groups[place], groups[[place]]):
            weights = weights_of(function, group, k).values.reshape(-1)
            if not found.agree(weights, found.values[place]):
                raise ValueError(
                    f"{name} must return the same weights for a group alone and among others, got "
                    f"{shown(weights)} and {shown(found.values[place])} for {shown(groups[place])}"
                )
    rng, n = np.random.default_rng(0), groups.shape[-1]
    for order in (np.arange(n)[::-1], np.roll(np.arange(n), 1), rng.permutation(n)):
        reordered = weights_of(function, groups[:, order], k).values
        for group, before, after in zip(groups, found.values[:, order], reordered, strict=True):
            if not found.agree(before, after):
                raise ValueError(
                    f"{name} must not depend on the order of the responses, got {shown(after)} for "
                    f"{shown(group[order])}, where those for {shown(group)} are {shown(before)} "
                    "in this order"
                )
    return found


def weights_of(function: WeightFunction, rewards: Floats, k: int) -> Weights:
    """What a function returns for rewards [..., n].

    Raises: ValueError of one line if it fails, changes its rewards, or returns no weights.
    """
    name, given = name_of(function), rewards.copy()
    try:
        found = function(given, k)
    except Exception as error:  # of a user's function
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        given_as = f"rewards of shape {rewards.shape}, dtype {rewards.dtype}, and k = {k}"
        raise ValueError(f"{name} failed for {given_as}: {reason}") from error
    if not np.array_equal(given, rewards):
        raise ValueError(f"{name} must not change the rewards that it is given")
    return as_weights(found, rewards, name)


def as_weights(found: Any, rewards: Floats, name: str) -> Weights:
    """What the function `name` returned for some rewards: an array, or a tensor of PyTorch.

    Raises: ValueError for another shape, and for weights that are not finite real numbers.
    """
    if not hasattr(found, "dtype") or tuple(found.shape) != rewards.shape or not found.ndim:
        got = tuple(found.shape) if hasattr(found, "dtype") else type(found).__name__
        raise ValueError(f"{name} must return an array of shape {rewards.shape}, got {got}")
    dtype = str(found.dtype).removeprefix("torch.")
    if dtype.startswith(("int", "uint", "bool", "float128", "longdouble", "float96")):
        dtype = "float64"
    if dtype not in TOLERANCE:
        allowed = ", ".join(TOLERANCE)
        raise ValueError(f"{name} must return real numbers, got dtype {dtype}; allowed: {allowed}")
    values = as_floats(found)
    if not np.isfinite(values).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        wrong = f"{values[index]} at index {index} for the rewards {shown(rewards[index[:-1]])}"
        raise ValueError(f"{name} must return finite weights, got {wrong}")
    return Weights(values, dtype)


def as_floats(numbers: Any) -> Floats:
    """Numbers of any dtype in float64; a tensor of PyTorch of any device and dtype too."""
    if hasattr(numbers, "detach"):  # NumPy has no bfloat16
        numbers = numbers.detach().cpu().double().numpy()
    return np.asarray(numbers, dtype=np.float64)


def name_of(function: WeightFunction) -> str:
    return getattr(function, "__name__", "the weight function")


def shown(group: Floats) -> str:
    """The numbers of a group in a message, the first ones of a large group."""
    numbers = [f"{value:g}" for value in group[:MOST_SHOWN]]
    return f"[{', '.join(numbers)}{', ...' if len(group) > MOST_SHOWN else ''}]"


def require_integers(**numbers: Any) -> None:
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
