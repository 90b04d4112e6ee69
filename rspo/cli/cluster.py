"""The commands of the panel Cluster."""

from typing import TYPE_CHECKING, Annotated

import typer

from rspo.cli.command import command
from rspo.cli.options import Force

if TYPE_CHECKING:
    from rspo.config.experiment import Experiment

PANEL = "Cluster"


@command(PANEL, "rspo plan --scale paper", "rspo plan --scale paper --budget 200")
def plan(
    experiment: "Experiment",
    budget: Annotated[
        float | None,
        typer.Option(min=0, help="Instead, the claims so many GPU-hours answer.", metavar="HOURS"),
    ] = None,
) -> str:
    """Estimate jobs, GPU hours, time and disk space of what is left to run."""
    # The module is renamed here, because `budget` is the name of the option.
    from rspo.plan import budget as claims
    from rspo.plan import jobs

    if budget is None:
        return jobs.text(experiment)
    return claims.text(experiment, budget)


@command(PANEL, "rspo cost")
def cost(experiment: "Experiment", force: Force = False) -> None:
    """Write a table of the resources that each policy used."""
    from rspo.pipeline.cost import write_cost_table

    write_cost_table(experiment, force)


@command(PANEL, "rspo trial pilot --scale paper")
def trial(
    experiment: "Experiment",
    name: Annotated[str, typer.Argument(help="A trial of the config, such as pilot.")],
) -> int:
    """Say whether a trial's trainings show what they must before the real ones start.

    The exit status is 1 if they do not.
    """
    from rspo.analysis import trials

    outcomes = trials.outcomes(experiment, name)
    print(trials.text(experiment, name, outcomes))
    return 0 if trials.is_go(outcomes) else 1


@command(PANEL, "rspo doctor --scale paper", "srun --partition=gpu rspo doctor --node")
def doctor(
    experiment: "Experiment",
    node: Annotated[
        bool, typer.Option("--node", help="Instead, check what jobs need on this machine.")
    ] = False,
    rule: Annotated[
        list[str], typer.Option(hidden=True, help="Set by Snakemake, which knows its rules.")
    ] = [],  # noqa: B006
) -> int:
    """Check config, software, profile and cluster for all that would stop a job.

    Snakemake runs it before it submits the first job.
    """
    from rspo.slurm.doctor import report, report_machine

    if node:
        return 0 if report_machine(experiment) else 2
    return 0 if report(experiment, rule) else 2
