"""Gain over the base model against how often the base model solves a problem.

The paper's mechanism should show here: RSPO's weights are largest for problems that are rarely
solved. The first half of the base model's responses decides the group of a problem, and the second
halves of all policies decide the gains. With the same responses for both, problems with lucky
responses would be in too high a group and lose, and those with unlucky ones gain, without any
training (regression to the mean).

All policies are sampled with the same random numbers, so a method's responses of the first half do
not count either. Scores that were restored from evidence have their responses in random order: the
second half of a method then has responses that share random numbers with those that decided the
group, and its gain is drawn slightly towards the group's luck.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rspo.analysis.bootstrap import RESAMPLES, SEED, seed_weights
from rspo.analysis.comparisons import Method
from rspo.analysis.measure import Measurer
from rspo.config.experiment import Experiment
from rspo.evaluation.statistics import CONFIDENCE, Floats, resampled_problems
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import interval_over, run_description
from rspo.figures.style import Picture
from rspo.passk import pass_at_k

CAPTION = (
    "Pass@1 and Pass@k of each method minus that of the base model, on problems grouped by the "
    "base model's success rate; half of the base model's responses decide the group and the others "
    "the gains, so that regression to the mean cannot look like a gain. Bands are 95 % bootstrap "
    "intervals over problems and, with several training seeds, over seeds, not adjusted for the "
    "number of comparisons."
)
COLUMNS = [
    "metric_k",
    "method",
    "objective",
    "trained_k",
    "group",
    "solved_from",
    "solved_to",
    "of_samples",
    "problems",
    "base",
    "estimate",
    "low",
    "high",
    "seeds",
    "samples",
]
# Upper ends of the groups, as fractions of the deciding responses; the first group is "never".
ENDS = (0.0, 0.125, 0.25, 0.5, 1.0)
FEWEST = 10  # problems of a group, mean over seeds; smaller groups are left out


class Halves(NamedTuple):
    """Correct responses of one policy for each seed in the two halves, [seeds, problems] each."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]


def table(experiment: Experiment, figure: Figure) -> pd.DataFrame:
    """One row for each point of each line; groups of fewer than `FEWEST` problems have none."""
    measurer = Measurer(experiment)
    *trained, base = figure.methods(experiment)
    benchmarks = experiment.benchmarks_of(figure.suite(experiment))
    sizes = [len(measurer.scores(base.policies[0], name).ids) for name in benchmarks]
    samples = experiment.config.evaluation.samples
    rows = []
    for k in shown_ks(trained, samples):
        for method in trained:
            seeds = measurer.common_seeds([method, base])
            before = halves(measurer, base, seeds, benchmarks)
            after = halves(measurer, method, seeds, benchmarks)
            for row in gains(before, after, samples, k, sizes):
                row |= {"metric_k": k, "method": method.label, "objective": method.objective}
                rows.append(row | {"trained_k": method.k})
    return pd.DataFrame(rows, columns=COLUMNS).astype({"trained_k": "Int64"})


def shown_ks(trained: Sequence[Method], samples: int) -> list[int]:
    """The k of the panels: 1, and the middle one of those that the methods are trained for."""
    ks = sorted({method.k for method in trained if method.k and method.k <= samples // 4})
    return [1, ks[len(ks) // 2]] if ks else [1]


def halves(
    measurer: Measurer, method: Method, seeds: Sequence[int], benchmarks: Sequence[str]
) -> Halves:
    """The correct responses of a method in the first and in the second half of each problem's."""
    policies = measurer.policies_by_seed(method)
    first = []
    second = []
    for seed in seeds:
        scores = [measurer.scores(policies[seed], name).correct for name in benchmarks]
        correct = np.concatenate(scores)  # [problems, N]
        half = correct.shape[1] // 2
        first.append(correct[:, :half].sum(axis=1))
        second.append(correct[:, half:].sum(axis=1))
    return Halves(np.array(first), np.array(second))


def groups_of(first: NDArray[np.int64], half: int) -> NDArray[np.int64]:
    """The group of each problem by the correct ones of `half` responses; same shape as `first`."""
    return np.searchsorted(np.array(ENDS) * half, first)


def gains(
    before: Halves, after: Halves, samples: int, k: int, sizes: Sequence[int]
) -> list[dict[str, Any]]:
    """A row for each group of problems, in percent and percentage points.

    The gain of a group is the mean over seeds and problems that are in it; with a base model for
    each seed, a problem may be in another group for another seed. The ends are those of the middle
    95 % of resamples of seeds and problems (`rspo.analysis.bootstrap`).

    Args:
        before: of the base model.
        after: of the method.
        samples: of each problem; half of them decide the group.
        sizes: number of problems of each benchmark.
    """
    seeds, problems = before.first.shape
    half = samples // 2
    rest = samples - half
    base = 100 * pass_at_k(rest, before.second, k)
    gain = 100 * pass_at_k(rest, after.second, k) - base
    drawn = resampled_problems(sizes, RESAMPLES, SEED)
    of_problems = np.stack([np.bincount(row, minlength=problems) for row in drawn])
    of_seeds = seed_weights(seeds, RESAMPLES)
    groups = groups_of(before.first, half)
    rows = []
    for group in range(len(ENDS)):
        inside = groups == group  # [seeds, problems]
        if inside.sum() < FEWEST * seeds:
            continue
        tail = (1 - CONFIDENCE) / 2
        resampled = _resampled_mean(gain, inside, of_seeds, of_problems)
        low, high = np.nanquantile(resampled, (tail, 1 - tail))
        rows.append(
            {
                "group": group,
                "solved_from": int(before.first[inside].min()),
                "solved_to": int(before.first[inside].max()),
                "of_samples": half,
                "problems": round(inside.sum() / seeds),
                "base": base[inside].mean(),
                "estimate": gain[inside].mean(),
                "low": low,
                "high": high,
                "seeds": seeds,
                "samples": rest,
            }
        )
    return rows


def _resampled_mean(
    values: Floats, inside: NDArray[np.bool_], of_seeds: Floats, of_problems: NDArray[np.int64]
) -> Floats:
    """The mean of the values inside a group in each resample, [resamples]; NaN if it is empty.

    Args:
        values, inside: [seeds, problems].
        of_seeds, of_problems: the weights in each resample, [resamples, seeds or problems].
    """
    sums = (of_seeds * (of_problems @ (values * inside).T)).sum(axis=1)
    counts = (of_seeds * (of_problems @ inside.T.astype(float))).sum(axis=1)
    return np.divide(sums, counts, out=np.full(len(sums), np.nan), where=counts > 0)


def draw(table: pd.DataFrame, experiment: Experiment, figure: Figure) -> Picture:
    methods = figure.methods(experiment)
    picture = style.new_picture(style.TEXT_WIDTH, 2.8)
    panels = list(dict.fromkeys(table["metric_k"]))
    groups = table.drop_duplicates("group").sort_values("group").to_dict("records")
    looks = style.looks(methods)
    grid = picture.subplots(1, max(1, len(panels)), squeeze=False)[0]
    for axes, k in zip(grid, panels, strict=False):
        rows = table[table["metric_k"] == k]
        axes.axhline(0, color=style.INK, linewidth=0.8, zorder=1)
        style.draw(axes, rows, looks, "group", "estimate", ends=("low", "high"))
        axes.set(title=f"Pass@{k}", xlabel="correct responses of the base model")
        axes.set_xticks([row["group"] for row in groups], [_label(row) for row in groups])
    grid[0].set_ylabel("gain (percentage points)")
    style.legend_of(picture, [method for method in methods if method.trained])
    notes = [run_description(experiment, methods)]
    if groups:
        first = groups[0]
        notes.append(f"{first['of_samples']} responses of the base model decide the group")
        notes.append(f"{first['samples']} others per problem and policy decide the gain")
    notes.append("in brackets: problems")
    notes.append(f"bands: 95 %, over {interval_over(table)}")
    style.note(picture, *notes)
    return picture


def _label(row: Mapping[str, Any]) -> str:
    """The numbers of correct responses in a group, and the number of its problems."""
    counts = str(row["solved_from"])
    if row["solved_to"] > row["solved_from"]:
        counts += f"\u2013{row['solved_to']}"
    return f"{counts}\n({row['problems']})"


FIGURE = Figure("fig_difficulty", CAPTION, table, draw, grids=("main",), inputs=("scores",))
