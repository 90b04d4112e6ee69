"""Evaluation of the base policy and of the trained one, and a figure of both."""

from rspo.config.experiment import base_name
from rspo.config.schema import POOLED
from rspo.core.tables import CURVES, SCORES, read_table
from rspo.gpu_check.settings import SUITE, TRAINED, CheckFailed, Settings

_FIGURE = "fig_main"


def check(settings: Settings) -> str:
    experiment, evaluation = settings.experiment(), settings.experiment().config.evaluation
    results = []
    for title, policy in (
        ("base", base_name(settings.model)),
        ("trained", settings.cell(TRAINED)),
    ):
        for command in ("sample", "score", "curves"):
            settings.rspo(command, policy, SUITE)
        for benchmark in experiment.benchmarks_of(SUITE):
            scores = read_table(
                experiment.scores(policy, experiment.suite_of(benchmark), 0), SCORES, benchmark
            )
            if len(scores) != (evaluation.problems or 0) * evaluation.samples:
                raise CheckFailed(f"{policy} on {benchmark}: {len(scores)} scores")
        results.append(f"{title} {_pass_at_1(settings, policy):.2f}")
    problems = (evaluation.problems or 0) * len(experiment.benchmarks_of(SUITE))
    return f"Pass@1 of {problems} problems: {', '.join(results)}"


def _pass_at_1(settings: Settings, policy: str) -> float:
    (estimate,) = (
        row["estimate"]
        for row in read_table(settings.experiment().curves(policy, SUITE), CURVES)
        if (row["benchmark"], row["metric"], row["k"]) == (POOLED, "pass_at_k", 1)
    )
    return float(estimate)


def check_figure(settings: Settings) -> str:
    settings.rspo("figure", _FIGURE)
    return _FIGURE
