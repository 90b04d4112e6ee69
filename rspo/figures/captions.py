"""Complete captions: what a figure shows, of which cells, with how many samples and seeds."""

from typing import TYPE_CHECKING

from rspo.figures.methods import model_labels

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment
    from rspo.figures.figure import Figure


def full_caption(experiment: "Experiment", figure: "Figure") -> str:
    """The caption of a figure, followed by the scale, cells, seeds and samples of the config.

    Raises: InputError for a figure whose grids the config lacks.
    """
    if not figure.of_results:
        return f"{figure.caption} Computed from formulas, without samples: the values are exact."
    policies = figure.policies(experiment)
    scale, models = experiment.scale.capitalize(), model_labels(experiment, policies)
    cells = cells_sentence(experiment, policies)
    caption = f"{figure.caption} {scale} scale, {models}. {cells}"
    if not figure.reads("curves", "scores", "comparisons", "study"):
        return caption
    evaluation = experiment.config.evaluation
    suite = experiment.config.data.suites[figure.suite(experiment)]
    benchmarks = ", ".join(benchmark.label for benchmark in suite.values())
    caption = (
        f"{caption} Evaluated on {benchmarks} with N = {evaluation.samples} samples per problem"
    )
    if not figure.reads("curves"):
        return f"{caption}."
    resamples = evaluation.resamples
    return f"{caption}; each interval is computed from {resamples} resamplings of the problems."


def cells_sentence(experiment: "Experiment", policies: list[str]) -> str:
    """The names of the cells without their seeds, and the number of seeds."""
    bases = [policy for policy in policies if experiment.is_base(policy)]
    cells = dict.fromkeys(p.rpartition("--s")[0] for p in policies if p not in bases)
    seeds = experiment.seeds_of(policies)
    trained = [f"Cells: {', '.join(cells)}; {seeds} each."] if cells else []
    untrained = [f"Not trained: {', '.join(bases)}."] if bases else []
    return " ".join(trained + untrained)
