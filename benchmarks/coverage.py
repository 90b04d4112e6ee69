"""Coverage of the 95 % intervals of differences between methods, with known truth.

Seven methods on the same problems of four benchmarks, with N responses to each. The truth of a pair
is the difference of the two expectations over problems, trainings and responses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks import Row
from rspo.estimators import pass_at_k
from rspo.evaluation.statistics import Floats, Part, SeedVariance, combine

SIZES = (30, 60, 40, 70)
SHAPES = ((0.4, 2.0), (1.0, 1.0), (2.0, 2.0), (0.5, 0.6))  # of beta distributions of benchmarks
METHODS, RESPONSES, K = 7, 32, 4
# Standard deviations over seeds of the logit of a response's chance, of each method.
SPREADS: dict[str, Floats] = {
    "0.01": np.full(METHODS, 0.01),
    "0.03": np.full(METHODS, 0.03),
    "equal": np.full(METHODS, 0.1),
    "unequal": np.geomspace(0.01, 0.1, METHODS),
}
REPEATS, TRUTH = 2000, 2000
HOLM = 0.0042  # of the smallest of twelve p-values


@dataclass(frozen=True)
class Coverage:
    """Fractions over repeats: of intervals that contain the truth, mean over pairs and of the worst
    pair; and of two-sided p-values of the truth below .05 and below `HOLM`."""

    mean: float
    worst: float
    significant: float
    significant_at_42: float


def chances(rng: np.random.Generator, seeds: int, spreads: Sequence[float] | Floats) -> Floats:
    """Chances of a correct response, [methods, seeds, problems], on new problems."""
    easy = np.concatenate(
        [rng.beta(*shape, size) for shape, size in zip(SHAPES, SIZES, strict=True)]
    )
    logits = np.log(easy / (1 - easy)) + 0.5 * rng.standard_normal((METHODS, 1, sum(SIZES)))
    seed = np.asarray(spreads)[:, None, None] * rng.standard_normal((METHODS, seeds, 1))
    return 1 / (
        1 + np.exp(-logits - seed - 0.3 * rng.standard_normal((METHODS, seeds, sum(SIZES))))
    )


def coverage(seeds: int, spreads: Floats, repeats: int, seed: int) -> Coverage:
    rng = np.random.default_rng(seed)
    truth = np.mean(
        [(1 - (1 - chances(rng, 20, spreads)) ** K).mean(axis=(1, 2)) for _ in range(TRUTH)], axis=0
    )
    pairs = list(combinations(range(METHODS), 2))
    p = np.empty((repeats, len(pairs)))
    for repeat in range(repeats):
        found = rng.binomial(RESPONSES, chances(rng, seeds, spreads))
        values = pass_at_k(RESPONSES, found, K)
        pool = SeedVariance.of(list(values.mean(axis=2)))
        for place, (one, other) in enumerate(pairs):
            parts = [Part(values[one], of_seeds=pool), Part(values[other], -1, of_seeds=pool)]
            estimate, difference = combine(parts, SIZES), truth[one] - truth[other]
            one_sided = estimate.p_above(difference), estimate.p_below(difference)
            p[repeat, place] = 2 * min(one_sided)
    covered = (p >= 0.05).mean(axis=0)
    below = float((p < 0.05).mean()), float((p < HOLM).mean())
    return Coverage(float(covered.mean()), float(covered.min()), *below)


def run() -> list[Row]:
    rows = []
    for seeds in (2, 3, 5):
        for name, spreads in SPREADS.items():
            found = coverage(seeds, spreads, REPEATS, seed=seeds)
            measured = (
                f"{found.mean:.3f}, worst pair {found.worst:.3f}; p < .05: "
                f"{found.significant:.3f}, p < {HOLM}: {found.significant_at_42:.4f}"
            )
            holds = (
                0.94 <= found.mean <= 0.965
                and found.worst >= 0.9
                and 0.03 <= found.significant <= 0.06
                and found.significant_at_42 <= 0.006
            )
            bar = f"0.940 to 0.965, at least 0.900; 0.030 to 0.060, at most {0.006}"
            rows.append(Row(f"{seeds} seeds, spread {name}", measured, bar, holds))
    return rows
