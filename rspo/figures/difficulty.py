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
from rspo.figures.methods import Method, face, methods_of

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
    import pandas as pd

    methods = methods_of(experiment, figure.policies(experiment))
    correct = {
        policy: _correct(experiment, figure, policy) for policy in figure.policies(experiment)
    }
    (base,) = (method for method in methods if method.objective == "base")
    trained = [method for method in methods if method is not base]
    first, _ = halves(correct[base.policies[0]])
    rows = [
        row
        for k in (1, _metric_k(trained, first.shape[1]))
        for method in trained
        for row in gains(method, base, correct, groups_of(first), k)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"trained_k": "Int64"})


def _correct(experiment: "Experiment", figure: Figure, policy: str) -> "NDArray[np.bool_]":
    """[problems, N] of all benchmarks of the suite."""
    import numpy as np

    from rspo.evaluation.read_outcomes import suite_scores

    scores = suite_scores(experiment, policy, figure.suite(experiment))
    return np.concatenate([outcomes.correct for outcomes in scores.values()])


def halves(
    correct: "NDArray[np.bool_]",
) -> "tuple[NDArray[np.bool_], NDArray[np.bool_]]":
    """The first and the second half of each problem's samples."""
    half = correct.shape[1] // 2
    return correct[:, :half], correct[:, half:]


def groups_of(first: "NDArray[np.bool_]") -> "NDArray[np.int_]":
    """The group of each problem, by the number of correct samples in the first half."""
    import numpy as np

    return np.searchsorted(np.array(ENDS) * first.shape[1], first.sum(axis=1))


def _metric_k(methods: list[Method], most: int) -> int:
    """The middle one of the trained k."""
    ks = sorted({method.k for method in methods if method.k and method.k <= most})
    return ks[len(ks) // 2] if ks else most


def gains(
    method: Method,
    base: Method,
    correct: "dict[str, NDArray[np.bool_]]",
    groups: "NDArray[np.int_]",
    k: int,
) -> "list[tuple[object, ...]]":
    """The rows of one line.

    Args:
        correct: [problems, N] of each policy.
        groups: [problems].
    """
    import numpy as np

    from rspo.estimators import pass_at_k
    from rspo.evaluation.statistics import Part, combine

    def estimates(policy: str) -> "NDArray[np.float64]":
        _, second = halves(correct[policy])
        return 100 * pass_at_k(second.shape[1], second.sum(axis=1), k)

    first, second = halves(correct[base.policies[0]])
    solved, before = first.sum(axis=1), estimates(base.policies[0])
    after = np.array([estimates(policy) for policy in method.policies])
    rows: list[tuple[object, ...]] = []
    for group in range(len(ENDS)):
        chosen = groups == group
        size = int(chosen.sum())
        if size < FEWEST:
            continue
        parts = [Part(after[:, chosen]), Part(-before[None, chosen], trained=False)]
        gain = combine(parts, [size])
        counts = int(solved[chosen].min()), int(solved[chosen].max()), first.shape[1]
        mean = float(before[chosen].mean())
        numbers = gain.value, *gain.interval(), len(after), second.shape[1]
        named = k, method.label, method.objective, method.k, group
        rows.append((*named, *counts, size, mean, *numbers))
    return rows


def draw(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    methods = methods_of(experiment, figure.policies(experiment))
    methods = [method for method in methods if method.objective != "base"]
    picture = style.new_picture(style.TEXT_WIDTH, 2.7)
    plot = style.plot(table, picture, x="group", y="estimate").facet("metric_k").share(y=False)
    plot = style.add_intervals(plot, table, methods, "low", "high", alpha=0.08)
    plot = style.add_lines(plot, table, methods)
    plot.label(
        x="correct samples of the base model", y="gain (percentage points)", title="Pass@{}".format
    ).plot()
    groups = table.drop_duplicates("group").sort_values("group")
    for axes in picture.axes:
        axes.axhline(0, color=style.INK, linewidth=0.8, zorder=0)
        axes.set_xticks(groups["group"], [_label(row) for row in groups.itertuples()])
    style.legend(picture, methods)
    first = groups.iloc[0]
    style.note(
        picture,
        f"{face(experiment, methods)}; {first['of_samples']} samples of the base model decide the "
        "group",
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
    "fig_difficulty",
    CAPTION,
    COLUMNS,
    table,
    draw,
    grids=("main",),
    scores=True,
)
