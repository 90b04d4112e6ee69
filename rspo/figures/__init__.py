"""Every figure by name: what it needs, what it says, and `draw`.

    from rspo.figures import available, draw
    for name in available(experiment):
        draw(experiment, name)

A new figure is one module here and one line in `FIGURES`. The module has

    COLUMNS: dict[str, str]          the CSV's columns and what each holds
    numbers(...) -> list[Row]        every number to be drawn, one dict a row
    picture(rows, ...) -> Figure     the picture, from those rows and nothing else

both called with `(experiment, figure)` where the figure shows results, and without where it shows
formulas alone. The CSV is `numbers` as it stands, so picture and CSV cannot differ.

Importing this package imports neither numpy nor matplotlib: the Snakefile reads it to plan.
"""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rspo.errors import InputError

if TYPE_CHECKING:
    from rspo.experiment import Experiment

SUFFIXES = (".pdf", ".png", ".csv")


@dataclass(frozen=True)
class Figure:
    """One figure: what it is about and what it is drawn from.

    name: of its files, without suffix.
    module: in this package; has COLUMNS, numbers and picture.
    caption: what it shows and what its error is; `captions.full_caption` adds the cells, N and
        seeds, which follow from the config.
    grids: names in config.grid; none for a figure of formulas.
    objectives: which cells of the grids it draws; none means all.
    curves: whether it reads `experiment.curves(policy, suite)` of its policies, and so draws the
        base policies too.
    metric: which rows of those curves.
    training_logs: whether it reads `experiment.training_log(cell)` of its policies.
    """

    name: str
    module: str
    caption: str
    grids: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ()
    curves: bool = False
    metric: str = "pass_at_k"
    training_logs: bool = False

    def policies(self, experiment: "Experiment") -> list[str]:
        """Names of the policies it draws, base ones first, each once; none for formulas.

        Raises: InputError for a grid that the config lacks.
        """
        self.require(experiment)
        bases = [base for grid in self.grids for base in experiment.bases_of(grid)]
        cells = [
            cell.name
            for grid in self.grids
            for cell in experiment.cells_of(grid)
            if not self.objectives or cell.objective in self.objectives
        ]
        return list(dict.fromkeys([*(bases if self.curves else []), *cells]))

    def suite(self, experiment: "Experiment") -> str:
        """The suite whose benchmarks are its panels.

        Raises: InputError if its grids are evaluated on different suites, or it reads no curves.
        """
        self.require(experiment)
        suites = {grid: experiment.comparison(grid).suite for grid in self.grids}
        if len(set(suites.values())) != 1:
            found = ", ".join(f"grid.{grid}.suite = {suite}" for grid, suite in suites.items())
            raise InputError(
                f"config/{experiment.scale}.yaml: {self.name} draws its grids in the same panels "
                f"and needs one suite for all; found {found or 'no grid'}"
            )
        return next(iter(suites.values()))

    def inputs(self, experiment: "Experiment") -> list[Path]:
        """The files it is drawn from."""
        policies = self.policies(experiment)
        suite = self.suite(experiment) if self.curves else ""
        return [
            *(experiment.curves(policy, suite) for policy in policies if self.curves),
            *(experiment.training_log(policy) for policy in policies if self.training_logs),
        ]

    def outputs(self, experiment: "Experiment") -> list[Path]:
        """The files that `draw` writes: .pdf, .png and .csv."""
        folder = experiment.results / "figures"
        return [folder / f"{self.name}{suffix}" for suffix in SUFFIXES]

    def settings(self, experiment: "Experiment") -> dict[str, Any]:
        """What of the config decides the figure, its inputs' content aside, as plain data."""
        chosen: dict[str, Any] = {"figure": self.name}
        if not self.grids:
            return chosen
        policies = self.policies(experiment)
        models = dict.fromkeys(experiment.model_of(policy) for policy in policies)
        chosen |= {
            "scale": experiment.scale,
            "policies": policies,
            "models": {model: experiment.config.models[model].label for model in models},
        }
        if self.curves:
            suite = experiment.config.data.suites[self.suite(experiment)]
            chosen["panels"] = {name: benchmark.label for name, benchmark in suite.items()}
            chosen["k"] = list(experiment.config.evaluation.k)
        if self.training_logs:
            chosen["steps"] = experiment.config.training.steps
        return chosen

    def require(self, experiment: "Experiment") -> None:
        """Raises: InputError that names the grids that the config lacks, if any."""
        has = experiment.config.grid
        lacking = [grid for grid in self.grids if grid not in has]
        if lacking:
            raise InputError(
                f"config/{experiment.scale}.yaml: {self.name} needs grid {', '.join(lacking)}, "
                f"which this scale lacks; it has {', '.join(has)}"
            )


_BANDS = (
    "bands are 95 % intervals over resampled problems (averaged over seeds, whose own spread they "
    "leave out; all methods answer the same problems, so bands may overlap where paired "
    "differences are clear)"
)

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        Figure(
            "fig_intro",
            "intro",
            "Training for the expected reward prefers policy A while Max@k (top: one prompt, "
            "rewards between 0 and 1) and Pass@k (bottom: two prompts) at larger k prefer "
            "policy B; all values are exact.",
        ),
        Figure(
            "fig_hitchhiking",
            "hitchhiking",
            "Weights that the hitchhiking baseline and RSPO (Max@k, k = 4) give to one sample of "
            "eight rewards: in the baseline every response rides along with the best of its "
            "group, in RSPO each is paid for what it adds itself.",
        ),
        Figure(
            "fig_disjoint",
            "disjoint",
            "The probability that the maximum of three dice is 4 as a sum over disjoint cases, "
            "one for each die that can be the first to show it; counted by enumerating all "
            "outcomes.",
        ),
        Figure(
            "fig_passk_weight",
            "passk_weight",
            "Left: RSPO's Pass@k weight k(1-w)^(k-1) of a correct response against the "
            "probability w of a correct response; right: where the weight is above 1 (green, "
            "amplified) and below 1 (red, damped), with the exact boundary w = 1 - k^(-1/(k-1)).",
        ),
        Figure(
            "fig_maxk_weight",
            "maxk_weight",
            "Standard normal rewards; left: for k = 2 the area under the cumulative distribution "
            "up to a reward R is that response's weight divided by k; right: the weight, "
            "k times the integral of the distribution's (k-1)-th power up to R, against R.",
        ),
        Figure(
            "fig_main",
            "curves",
            "Accuracy (Pass@k) of policy gradient (PG), RSPO, the hitchhiking baseline and the "
            f"base model on each benchmark and on all problems pooled; {_BANDS}.",
            grids=("main",),
            curves=True,
        ),
        Figure(
            "fig_entropy",
            "entropy",
            "Entropy of the policy (mean over tokens, in nats) at each training step for policy "
            "gradient (PG) and RSPO; thin: each step, averaged over seeds; thick: its centred "
            "moving average; no error is drawn.",
            grids=("main",),
            objectives=("policy_gradient", "rspo_pass_at_k"),
            training_logs=True,
        ),
        Figure(
            "fig_scalability",
            "curves",
            "Accuracy (Pass@k) of RSPO at fixed k trained with different numbers n of responses "
            f"per prompt; {_BANDS}.",
            grids=("scalability",),
            curves=True,
        ),
        Figure(
            "fig_model_size",
            "curves",
            f"The comparison of fig_main with the second, larger model; {_BANDS}.",
            grids=("model_size",),
            curves=True,
        ),
        Figure(
            "fig_contamination_free",
            "curves",
            f"The policies of fig_main on benchmarks that are newer than the models; {_BANDS}.",
            grids=("contamination_free",),
            curves=True,
        ),
        Figure(
            "fig_max_at_k",
            "curves",
            "Max@k, the expected best reward of k responses, of policies trained with the "
            f"length-discounted reward; {_BANDS}.",
            grids=("max_at_k",),
            curves=True,
            metric="max_at_k",
        ),
        Figure(
            "fig_grpo",
            "curves",
            f"The comparison of fig_main with GRPO added; {_BANDS}.",
            grids=("main", "grpo"),
            curves=True,
        ),
    )
}


def available(experiment: "Experiment") -> list[str]:
    """Names of the figures whose grids the config has, those of formulas included."""
    has = set(experiment.config.grid)
    return [name for name, figure in FIGURES.items() if has.issuperset(figure.grids)]


def draw(experiment: "Experiment", name: str) -> None:
    """Draw one figure into `experiment.results / "figures"`, all of its files or none.

    Writes <name>.pdf, <name>.png and <name>.csv with the same bytes for the same input, and a
    provenance note beside each, which also tells what the CSV's columns hold.

    Raises: InputError for an unknown figure, one whose grid the config lacks, and for inputs that
        are missing or incomplete.
    """
    if name not in FIGURES:
        close = difflib.get_close_matches(name, FIGURES, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InputError(f"no figure {name!r}{hint}; has {', '.join(FIGURES)}")
    FIGURES[name].require(experiment)
    from rspo.figures.drawing import draw_files  # here, because it imports matplotlib

    draw_files(experiment, FIGURES[name])
