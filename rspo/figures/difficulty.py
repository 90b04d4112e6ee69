"""Gain over the base model against how often the base model solves a problem.

The paper's mechanism should show here: RSPO's weights are largest for problems that are rarely
solved. The first half of the base model's samples decides a problem's bin, and the second halves
of all policies decide the gains. With the same samples for both, the problems with lucky samples
would be in too high a bin and lose, and those with unlucky samples gain, without any training
(regression to the mean). All policies are sampled with the same random numbers, so the first halves
of the others do not count either.
"""

from typing import TYPE_CHECKING, Any

from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import Method, methods_of, run_description

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.figure import Figure as Picture
    from numpy.typing import NDArray

    from rspo.config.experiment import Experiment

CAPTION = (
    "Pass@1 and Pass@k of each method minus that of the base model, on problems grouped by the "
    "base model's success rate. Half of the base model's samples decide the group and the other "
    "samples the gains, so that regression to the mean cannot look like a gain. Bands are 95 % "
    "intervals over problems and, with several training seeds, over seeds, not adjusted for the "
    "number of comparisons."
)
COLUMNS = {
    "metric_k": "panel: k of Pass@k",
    "method": "line, as in the legend",
    "objective": "that the policy was trained with",
    "trained_k": "k of the objective; empty where it has none",
    "group": "x: number of the group, from 0",
    "solved_from": "fewest correct samples of the base model among the group's `of_samples`",
    "solved_to": "most correct samples",
    "of_samples": "samples of the base model that decide the group",
    "problems": "in the group",
    "base": "Pass@k of the base model on the group, in %",
    "estimate": "y: gain, Pass@k of the method minus `base`, in percentage points, mean over seeds",
    "low": "lower end of the band",
    "high": "upper end of the band",
    "seeds": "training seeds averaged",
    "samples": "samples per problem and policy that decide the gains",
}
# Upper ends of the groups, as fractions of the samples; the first group is "never".
ENDS = (0.0, 0.125, 0.25, 0.5, 1.0)
FEWEST = 10  # problems of a group


def table(experiment: "Experiment", figure: Figure) -> "pd.DataFrame":
    """One row for each point of each line; groups of fewer than `FEWEST` problems have none.

    Raises: InputError for scores that are missing or bad.
    """
    import numpy as np
    import pandas as pd

    from rspo.evaluation.read_outcomes import suite_scores

    suite = figure.suite(experiment)
    correct = {
        policy: np.concatenate(
            [outcomes.correct for outcomes in suite_scores(experiment, policy, suite).values()]
        )
        for policy in figure.policies(experiment)
    }
    *trained, base = methods_of(experiment, figure.policies(experiment))
    before = correct[base.policies[0]]
    ks = sorted({m.k for m in trained if m.k and m.k <= before.shape[1] // 2})
    rows = [
        row
        for k in (1, ks[len(ks) // 2] if ks else before.shape[1] // 2)
        for method in trained
        for row in gains(method, before, np.array([correct[p] for p in method.policies]), k)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"trained_k": "Int64"})


def groups_of(before: "NDArray[np.bool_]") -> "NDArray[np.int_]":
    """The group of each problem, by the number of correct samples in the first half."""
    import numpy as np

    half = before.shape[1] // 2
    return np.searchsorted(np.array(ENDS) * half, before[:, :half].sum(axis=1))


def gains(
    method: Method, before: "NDArray[np.bool_]", after: "NDArray[np.bool_]", k: int
) -> "list[tuple[object, ...]]":
    """The rows of one line.

    Args:
        before: verdicts of the base model, [problems, N].
        after: of the method, [seeds, problems, N].
    """
    from rspo.estimators import pass_at_k
    from rspo.evaluation.statistics import Part, combine

    half, groups = before.shape[1] // 2, groups_of(before)
    first, rest = before[:, :half].sum(axis=1), before.shape[1] - half
    base = 100 * pass_at_k(rest, before[:, half:].sum(axis=-1), k)
    trained = 100 * pass_at_k(rest, after[..., half:].sum(axis=-1), k)
    rows: list[tuple[object, ...]] = []
    for group in range(len(ENDS)):
        chosen = groups == group
        size = int(chosen.sum())
        if size < FEWEST:
            continue
        parts = [Part(trained[:, chosen]), Part(base[None, chosen], -1, trained=False)]
        gain = combine(parts, [size])
        counts = int(first[chosen].min()), int(first[chosen].max()), half
        numbers = float(base[chosen].mean()), gain.value, *gain.interval(), len(after), rest
        named = k, method.label, method.objective, method.k, group
        rows.append((*named, *counts, size, *numbers))
    return rows


def draw(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    *methods, _ = methods_of(experiment, figure.policies(experiment))
    picture = style.new_picture(style.TEXT_WIDTH, 2.7)
    groups = table.drop_duplicates("group").sort_values("group")
    panels = table.groupby("metric_k")
    grid = picture.subplots(1, len(panels), squeeze=False)[0]
    for axes, (k, rows) in zip(grid, panels, strict=True):
        axes.axhline(0, color=style.INK, linewidth=0.8, zorder=0)
        style.draw_intervals(axes, rows, methods, "group", ("low", "high"), alpha=0.08)
        style.draw_lines(axes, rows, methods, "group", "estimate")
        axes.set(title=f"Pass@{k}", xlabel="correct samples of the base model")
        axes.set_xticks(groups["group"], [_label(row) for row in groups.itertuples()])
    grid[0].set_ylabel("gain (percentage points)")
    style.legend(picture, methods)
    first = groups.iloc[0]
    style.note(
        picture,
        f"{run_description(experiment, methods)}; {first['of_samples']} samples of the base model "
        "decide the group",
        f"other {first['samples']} samples per problem decide the gain; in brackets: problems; "
        "bands: 95 %",
    )
    return picture


def _label(row: Any) -> str:
    counts = f"{row.solved_from}"
    if row.solved_to > row.solved_from:
        counts += f"\u2013{row.solved_to}"
    return f"{counts}\n({row.problems})"


FIGURE = Figure(
    "fig_difficulty", CAPTION, COLUMNS, table, draw, grids=("main",), inputs=("scores",)
)
