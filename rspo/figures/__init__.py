"""Every figure by name: what it needs, what it says, and `draw`.

    from rspo.figures import available, draw
    for name in available(experiment):
        draw(experiment, name)

A comparison of the config's grid that no figure here draws gets one of its own, of the same kind as
fig_main. Any other new figure is one module here and one line in `FIGURES`. The module has

    COLUMNS: dict[str, str]          the CSV's columns and what each holds
    numbers(...) -> list[Row]        every number to be drawn, one dict a row
    picture(rows, ...) -> Figure     the picture, from those rows and nothing else

both called with `(experiment, figure)` where the figure shows results, and without where it shows
formulas alone. The CSV is `numbers` as it stands, so picture and CSV cannot differ.

Importing this package imports neither numpy nor matplotlib: the Snakefile reads it to plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rspo.core.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment

FOLDER = Path(__file__).parent
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
    training_set: whether it reads the training problems besides.
    gradients: whether it reads `experiment.gradients(policy)` of the policies that the config's
        section gradients names.
    """

    name: str
    module: str
    caption: str
    grids: tuple[str, ...] = ()
    objectives: tuple[str, ...] = ()
    curves: bool = False
    metric: str = "pass_at_k"
    training_logs: bool = False
    training_set: bool = False
    gradients: bool = False

    @property
    def of_results(self) -> bool:
        """Whether it shows what an experiment measured, and not formulas alone."""
        return bool(self.grids) or self.gradients

    def policies(self, experiment: "Experiment") -> list[str]:
        """Names of the policies it draws, base ones first, each once; none for formulas.

        Raises: InputError for a grid or section that the config lacks.
        """
        self.require(experiment)
        if self.gradients:
            return experiment.gradient_policies
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
        suites = {grid: experiment.grid_entry(grid).suite for grid in self.grids}
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
            *([experiment.problems("train")] if self.training_set else []),
            *(experiment.gradients(policy) for policy in policies if self.gradients),
        ]

    def outputs(self, experiment: "Experiment") -> list[Path]:
        """The files that `draw` writes: .pdf, .png and .csv."""
        folder = experiment.results / "figures"
        return [folder / f"{self.name}{suffix}" for suffix in SUFFIXES]

    def settings(self, experiment: "Experiment") -> dict[str, Any]:
        """What decides the figure, its inputs' content aside, as plain data.

        Its code and caption are among it, so that no picture stays below a caption of later code.
        """
        chosen: dict[str, Any] = {
            "figure": self.name,
            "caption": self.caption,
            "code": _code(self.module),
        }
        if not self.of_results:
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
            chosen["prompts_per_step"] = experiment.config.training.prompts_per_step
        return chosen

    def lacks(self, experiment: "Experiment") -> str:
        """What it needs of the config and this scale has not; empty if nothing."""
        has = experiment.config.grid
        lacking = [grid for grid in self.grids if grid not in has]
        if lacking:
            return (
                f"needs grid {', '.join(lacking)}, which this scale lacks; it has {', '.join(has)}"
            )
        if self.gradients and experiment.config.gradients is None:
            return "needs the section gradients, which this scale lacks"
        if self.gradients and (
            unknown := set(experiment.gradient_policies) - {*experiment.policies}
        ):
            return f"needs {', '.join(sorted(unknown))} of gradients.policies, not in this grid"
        return ""

    def require(self, experiment: "Experiment") -> None:
        """Raises: InputError that names what the config lacks, if anything."""
        if lacking := self.lacks(experiment):
            raise InputError(f"config/{experiment.scale}.yaml: {self.name} {lacking}")


_BANDS = (
    "bands are 95 % intervals over resampled problems, averaged over seeds (all methods answer the "
    "same problems, so bands may overlap where paired differences are clear); whiskers, with "
    "several training seeds, reach from the lowest to the highest"
)
_SHOWS = {
    "pass_at_k": "Accuracy (Pass@k)",
    "max_at_k": "Max@k, the expected best reward of k responses,",
}

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
            "moving average; shaded, with several training seeds: from the lowest to the highest.",
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
            f"The policies of fig_main on the suite contamination_free; {_BANDS}.",
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
        Figure(
            "fig_weight_by_difficulty",
            "weight_by_difficulty",
            "What each objective does with a prompt that is solved with probability p, in exact "
            "expectation: the total weight of correct responses (top), of wrong ones (middle), and "
            "the update of p's logit that follows from both (bottom); RSPO and the baseline have "
            "the same update, and the baseline pays wrong responses for it.",
        ),
        Figure(
            "fig_estimator_variance",
            "estimator_variance",
            "Exact variance of each objective's gradient for a policy with a single logit, and its "
            "signal-to-noise ratio, the squared mean over the variance: against the probability p "
            "of a correct response (first and second row), the objective's k, and the number n of "
            "responses (third and fourth row); right: times or by n, what each response brings.",
        ),
        Figure(
            "fig_bandit",
            "bandit",
            "A policy that must bet on one of six hidden strategies: the best policy for each k "
            "and its Pass@k (top), and the signal-to-noise ratio of one prompt's gradient at the "
            "uniform policy, of RSPO and of the baseline, whose optima are the same (bottom); all "
            "values are exact.",
        ),
        Figure(
            "fig_sample_efficiency",
            "sample_efficiency",
            "Pass@k of the training prompts while RSPO is trained with different numbers n of "
            "responses per prompt, against the training step (left) and against the responses "
            "drawn in total (right); only the first pass over the prompts, since those of later "
            "steps were trained on before; moving averages, where the window is whole; shaded, "
            "with several training seeds: from the lowest to the highest. A learning rate that "
            "falls does so with the step: at equal responses a smaller n is nearer to its end.",
            grids=("scalability",),
            training_logs=True,
            training_set=True,
        ),
        Figure(
            "fig_gradient_variance",
            "gradient_variance",
            "Variance of each objective's gradient as a multiple of RSPO's at the same k (top) and "
            "its signal-to-noise ratio (bottom): ratios of unbiased estimates, from responses to "
            "training prompts, before and after training; whiskers are 95 % intervals over "
            "prompts.",
            gradients=True,
        ),
    )
}


@cache
def _code(module: str) -> str:
    """SHA-256 of the sources here that draw a figure: its module, and those that figures share."""
    others = {figure.module for figure in FIGURES.values()} - {module}
    sources = sorted(FOLDER.glob("*.py"))
    drawing = [path for path in sources if path.stem not in {*others, "__init__"}]
    return sha256(b"".join(path.read_bytes() for path in drawing)).hexdigest()


def figures_of(experiment: "Experiment") -> dict[str, Figure]:
    """Every figure by name: those of `FIGURES`, then fig_<comparison> for each comparison of the
    config that none of those draws.

    Raises: InputError for a comparison whose figure would have another one's name.
    """
    drawn = {grid for figure in FIGURES.values() for grid in figure.grids}
    found = dict(FIGURES)
    for grid, comparison in experiment.config.grid.items():
        if grid in drawn:
            continue
        if f"fig_{grid}" in FIGURES:
            raise InputError(
                f"config/{experiment.scale}.yaml: grid.{grid} would be drawn as fig_{grid}, which "
                "is another figure's name; choose another name for the comparison"
            )
        binary = any(spec.reward == "binary" for spec in comparison.cells)
        metric = "pass_at_k" if binary else "max_at_k"
        found[f"fig_{grid}"] = Figure(
            f"fig_{grid}",
            "curves",
            f"{_SHOWS[metric]} of the policies of the comparison {grid}; {_BANDS}.",
            grids=(grid,),
            curves=True,
            metric=metric,
        )
    return found


def available(experiment: "Experiment") -> list[str]:
    """Names of the figures that the config has what it takes for, those of formulas included."""
    return [name for name, figure in figures_of(experiment).items() if not figure.lacks(experiment)]


def named(figures: Mapping[str, Figure], name: str) -> Figure:
    """One of the figures.

    Raises: InputError for an unknown name.
    """
    if name not in figures:
        hints = [did_you_mean(name, figures), f"has {', '.join(figures)}"]
        raise InputError("; ".join([f"no figure {name!r}", *filter(None, hints)]))
    return figures[name]


def draw(experiment: "Experiment", name: str) -> None:
    """Draw one figure into `experiment.results / "figures"`, all of its files or none.

    Writes <name>.pdf, <name>.png and <name>.csv with the same bytes for the same input, and a
    provenance note beside each, which also tells what the CSV's columns hold.

    Raises: InputError for an unknown figure, one whose grid the config lacks, and for inputs that
        are missing or incomplete.
    """
    figure = named(figures_of(experiment), name)
    figure.require(experiment)
    from rspo.figures.drawing import draw_files  # here, because it imports matplotlib

    draw_files(experiment, figure)
