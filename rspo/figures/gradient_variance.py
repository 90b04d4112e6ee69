"""Gradient variance of every objective, measured on the policy, before and after training.

For each training prompt, `rspo gradients` gives unbiased estimates of |E[g]|^2 and tr Cov[g] of the
gradient g of one group (`rspo.evaluation.gradients`). The figure shows

    tr Cov[g] as a multiple of RSPO's at the same k     (which only compares equal targets)
    mean |E[g]|^2 / mean tr Cov[g]                      (signal to noise; a factor of g cancels)

Each is a ratio of two means over the same prompts. Its standard error is that of the mean of
a_x - ratio * b_x over prompts, divided by the mean of b (the delta method, Cochran 1977, section
2.11), so noise that both have in common cancels. Intervals are 1.96 standard errors to both sides.
"""

from statistics import fmean
from typing import TYPE_CHECKING

from rspo.evaluation.statistics import ratio_of_means
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.methods import SAME_NOTE, binary_lines, label_of, model_labels, shown_as

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from rspo.config.experiment import Experiment

CAPTION = (
    "Variance of each objective's gradient as a multiple of RSPO's at the same k (top) and its "
    "signal-to-noise ratio (bottom): ratios of unbiased estimates, from responses to training "
    "prompts, before and after training; whiskers are 95 % intervals over prompts."
)
COLUMNS = {
    "policy": "column of panels",
    "objective": "name in rspo.objectives",
    "line": "that shows it, as in the legend",
    "k": "x: of the objective; 1 where it has none",
    "n": "responses of a group",
    "prompts": "measured on",
    "responses": "drawn for each prompt",
    "correct": "fraction of correct responses",
    "signal": "mean over prompts of |E[g]|^2",
    "variance": "mean over prompts of tr Cov[g]",
    "multiple": "first row: variance over that of rspo_pass_at_k at this k; empty where k is 1",
    "multiple_low": "lower end of its 95 % interval over prompts",
    "multiple_high": "upper end",
    "signal_to_noise": "second row: signal / variance",
    "signal_to_noise_low": "lower end of its 95 % interval over prompts",
    "signal_to_noise_high": "upper end",
}

REFERENCE = "rspo_pass_at_k"


def table(experiment: "Experiment", figure: Figure) -> "pd.DataFrame":
    """One row for each policy, objective and k.

    Raises: InputError for a table of gradients that is invalid.
    """
    import pandas as pd

    from rspo.core.tables import GRADIENTS, read_frame

    rows = []
    for policy in figure.policies(experiment):
        gradients = read_frame(experiment.gradients(policy), GRADIENTS)
        groups = dict(iter(gradients.groupby(["objective", "k"], sort=False)))
        for (objective, k), group in groups.items():
            names = {"policy": policy, "objective": objective, "line": shown_as(objective), "k": k}
            rows.append(names | _summary(group, groups.get((REFERENCE, k))))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _summary(group: "pd.DataFrame", reference: "pd.DataFrame | None") -> dict[str, float]:
    """The numbers of one objective and k, from the rows of its prompts and of the reference's."""
    summary = {
        "n": group["n"].iloc[0],
        "prompts": len(group),
        "responses": group["responses"].iloc[0],
        **{column: fmean(group[column]) for column in ("correct", "signal", "variance")},
    }
    ratios = {"signal_to_noise": ratio_of_means([*group["signal"]], [*group["variance"]])}
    if reference is not None:
        ratios["multiple"] = ratio_of_means([*group["variance"]], [*reference["variance"]])
    for name, (ratio, low, high) in ratios.items():
        summary |= {name: ratio, f"{name}_low": low, f"{name}_high": high}
    return summary


def draw(table: "pd.DataFrame", experiment: "Experiment", figure: Figure) -> "Picture":
    policies = figure.policies(experiment)
    picture = style.new_picture(style.TEXT_WIDTH, 4.6)
    grid = picture.subplots(2, len(policies), sharex="row", sharey="row", squeeze=False)
    for policy, (above, below) in zip(policies, grid.T, strict=True):
        rows = table[table["policy"] == policy]
        _draw_panel(above, rows[rows["multiple"].notna()], "multiple")
        _draw_panel(below, rows, "signal_to_noise")
        above.set_title(_title(experiment, policy))
        below.set_xlabel("k of the objective")
    grid[0, 0].set_ylabel("variance / RSPO's")
    grid[1, 0].set_ylabel("signal / noise")
    compared = table[table["multiple"].notna()]
    style.make_log10(grid[0, 0], [*compared["multiple"], *compared["multiple_high"]])
    style.legend(picture, binary_lines())
    first = table.iloc[0]
    style.note(
        picture,
        f"{experiment.scale} scale, {model_labels(experiment, policies)}, 1 seed, "
        f"{first['prompts']} training prompts, {first['responses']} responses each, "
        f"groups of n = {first['n']}",
        f"whiskers: 95 % over prompts; {SAME_NOTE}",
    )
    return picture


def _title(experiment: "Experiment", policy: str) -> str:
    if experiment.is_base(policy):
        return "before training"
    cell = experiment.cell(policy)
    return f"after training: {label_of(cell.objective, cell.k)}, n={cell.n}, seed {cell.seed}"


def _draw_panel(axes: "Axes", table: "pd.DataFrame", y: str) -> None:
    """Lines with whiskers; lines are shifted sideways, so that no whisker hides another one."""
    lines, ends = binary_lines(), (f"{y}_low", f"{y}_high")
    names = [line.objective for line in lines]
    place = table["objective"].map(dict(zip(names, range(len(names)), strict=True)))
    rows = table.assign(x=table["k"] * 2 ** (0.08 * (place - (len(names) - 1) / 2)))
    style.draw_intervals(axes, rows, lines, "x", ends, by="objective", alpha=None)
    style.draw_lines(axes, rows, lines, "x", y, by="objective")
    style.make_log2(axes, table["k"])


FIGURE = Figure("fig_gradient_variance", CAPTION, COLUMNS, table, draw, inputs=("gradients",))
