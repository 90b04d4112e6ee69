"""How noisy each objective's gradient is for a prompt that is solved with probability p.

`rspo.diagnose` has the expectations over groups of n responses with 0/1 rewards. The figure draws
mean and variance of

    g = (1-p) W+ - p W-,    W+, W-: total weights of correct and of wrong responses

which is the gradient of a policy with a single logit. The signal-to-noise ratio is E[g]^2 / Var[g].
For the mean over P prompts it is P times as large, and a constant factor of g does not change it.
With a single logit, wrong responses tell as much as correct ones; this does not hold for real
policies.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from rspo.analysis.comparisons import Method
from rspo.analysis.labels import label_of
from rspo.figures import style
from rspo.figures.figure import Figure
from rspo.figures.style import Picture
from rspo.objectives import OBJECTIVES, compared
from rspo.objectives.diagnose import Form, diagnose

Floats = NDArray[np.float64]

# Objectives without a line of their own: on 0/1 rewards they equal the objective named here.
EQUAL_ON_BINARY = {"rspo_max_at_k": "rspo_pass_at_k", "rspo_max_at_k_ranked": "rspo_pass_at_k"}


def expectations(objective: str, k: int, n: int, p: ArrayLike) -> Form:
    """The expectations of the weights of a group of n responses.

    The baseline has n/k independent groups of k, so the expectations of one group are enough.

    Raises: ValueError for k or n that the objective does not allow, and for weights that depend on
        the order of the responses.
    """
    size = k if objective == "hitchhiking" else n
    form = diagnose(objective, k, size, p).weights
    # The gradient is a mean over n / size independent groups.
    return replace(form, variance=form.variance * size / n)


def _numbers(panel: str, objective: str, k: int, n: int, p: Floats) -> pd.DataFrame | None:
    """A row for each p; None for an objective that `expectations` refuses."""
    try:
        form = expectations(objective, k, n, p)
    except ValueError:
        return None
    mean = p * (1 - p) * form.slope
    variance = form.variance
    # Without any variance, there is no ratio.
    ratio = mean**2 / np.where(variance > 0, variance, np.nan)
    return pd.DataFrame(
        {
            "panel": panel,
            "objective": objective,
            "line": label_of(EQUAL_ON_BINARY.get(objective, objective)),
            "k": k,
            "n": n,
            "p": p,
            "mean": mean,
            "variance": variance,
            "variance_times_n": n * variance,
            "signal_to_noise": ratio,
            "per_response": ratio / n,
        }
    )


# What is fixed in the panels against p, k and n.
HARD_P = 0.1  # the p of a hard prompt
K = 4
N = 16
# What the panels vary.
KS_AGAINST_P = (2, 4, 8)
ALL_KS = (1, 2, 4, 8, 16)
NS = (4, 8, 16, 32, 64)
# Rows of panels: the column on the x axis, its label, and what is fixed.
_ROWS = {
    "p": ("$p$, probability of a correct response", f"$k={K}$, $n={N}$"),
    "k": ("$k$ of the objective", f"$p={HARD_P}$, $n={N}$"),
    "n": ("$n$, responses per prompt", f"$p={HARD_P}$, $k={K}$"),
}
_PER_GROUP = {"variance": "variance", "signal_to_noise": "signal / noise"}
_PER_RESPONSE = {
    "variance_times_n": "variance times $n$",
    "per_response": "signal / noise per response",
}
SHOWN_RATIOS = (1e-4, 1e3)  # signal to noise; smaller ratios are of no interest


def table() -> pd.DataFrame:
    """One row for each point."""
    names = compared()
    probabilities = np.arange(1, 46) / 50  # 0.02 to 0.9
    hard = np.array([HARD_P])
    parts = [_numbers("p", name, k, N, probabilities) for k in KS_AGAINST_P for name in names]
    for name in names:
        ks = ALL_KS if OBJECTIVES[name].has_k else (1,)
        parts += [_numbers("k", name, k, N, hard) for k in ks]
    parts += [_numbers("n", name, K, n, hard) for name in names for n in NS]
    # `concat` skips None.
    return pd.concat(parts, ignore_index=True)


def draw(table: pd.DataFrame) -> Picture:
    picture = style.new_picture(style.TEXT_WIDTH, 6.6)
    names = list(table["objective"].unique())
    methods = [
        Method(label_of(name), objective=name, k=K if OBJECTIVES[name].has_k else None)
        for name in names
        if name not in EQUAL_ON_BINARY
    ]
    looks = {method.objective: style.look(method) for method in methods}
    for row, x in zip(picture.subplots(3, 2), _ROWS, strict=True):
        label, fixed = _ROWS[x]
        # The table has several k in the panels against p, of which one is drawn.
        rows = table[(table["panel"] == x) & ((x == "k") | (table["k"] == K))]
        # Left the variance, right the ratio; per response where n varies.
        quantities = _PER_RESPONSE if x == "n" else _PER_GROUP
        for axes, (quantity, name) in zip(row, quantities.items(), strict=True):
            every = 12 if x == "p" else 1  # markers; lines against p have 45 points
            style.draw(axes, rows, looks, x, quantity, by="objective", every=every)
            axes.set(title=f"{name}; {fixed}", xlabel=label)
            style.make_log10(axes, digits=(1,) if x == "p" else (1, 2, 5))
            if (x, quantity) == ("p", "signal_to_noise"):
                axes.set_ylim(SHOWN_RATIOS)
            if x == "p":
                axes.set_xlim(0, 1)
            else:
                style.make_log2(axes, rows[x])
    style.legend(picture, {method.objective: method.label for method in methods})
    missing = [label_of(name) for name in compared() if name not in names]
    notes = [
        "exact; 0/1 rewards, gradient of a single logit",
        f"on 0/1 rewards {' and '.join(EQUAL_ON_BINARY)} equal RSPO",
    ]
    if missing:
        why = "equal rewards get different weights, or k and n do not fit"
        notes.append(f"not shown: {', '.join(missing)} ({why})")
    style.note(picture, *notes)
    return picture


FIGURE = Figure(
    "fig_estimator_variance",
    "Exact variance of each objective's gradient for a policy with a single logit (left), and its "
    "signal-to-noise ratio, the squared mean over the variance (right): against the probability p "
    "of a correct response (top), the objective's k (middle) and the number n of responses "
    "(bottom, per response: the variance times n, and the ratio divided by n).",
    table,
    draw,
    inputs=("objectives",),
)
