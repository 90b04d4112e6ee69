"""Requests for each training the GPUs of its cell, with their share of the CPUs and the memory.

The profile of SLURM says what a training requests for all GPUs of a node: `gres`, and with it
`cpus_per_task` and `mem_mb`. The config says how many GPUs train a cell. An expression in a profile
cannot read the config, so this module changes the resources of the rule when Snakemake has read the
profile.

Private: `rule.resources` of `snakemake.rules.Rule`, and `snakemake.resources.Resource`, which may
change in any release of Snakemake (see `rspo.snakemake.patches`). tests/slurm/test_shares.py runs
Snakemake with them.
"""

from collections.abc import Mapping
from typing import Any

from snakemake.resources import Resource

from rspo.config.experiment import Experiment
from rspo.slurm.profile import SHARED, gpus_in, share_of


def share_gpus(rule: Any, experiment: Experiment) -> None:
    """Let the jobs of the rule `train` request the GPUs of their cells.

    A profile without GPUs, such as that of one machine, stays as it is, and so do the resources of
    cells that train on CPUs.

    Args:
        rule: the `snakemake.rules.Rule`, with the resources of the profile.
    """
    if not experiment.trains_on_gpus:
        return
    whole = {name: rule.resources[name] for name in SHARED if name in rule.resources}
    for name in whole:
        rule.resources[name] = _shared(name, whole, experiment)


def _shared(name: str, whole: Mapping[str, Resource], experiment: Experiment) -> Resource:
    """A resource whose value depends on the cell of the job.

    Args:
        whole: the resources for all GPUs of a node.
    """

    def value_for(
        wildcards: Any, input: Any, attempt: int, threads: int, rulename: str, async_run: Any
    ) -> Any:
        # Snakemake passes these arguments by name to every expression of a profile.
        job = {"input": input, "attempt": attempt, "threads": threads}
        job |= {"rulename": rulename, "async_run": async_run}
        values = {key: one.evaluate(wildcards, **job).value for key, one in whole.items()}
        value = values[name]
        of = gpus_in(values)
        gpus = experiment.gpus_of(wildcards.cell)
        if gpus >= of or not value or not isinstance(value, int | str):
            return value  # `of` is 0 if the profile says no number
        return share_of(value, gpus, of)

    return Resource(name, value_for)
