"""The input of the checks before a run (`Launch`), and their output (`Finding`)."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from rspo.config.experiment import Experiment
from rspo.slurm.cluster import Slurm
from rspo.slurm.profile import DEFAULT, Request, read_profile


class Kind(StrEnum):
    """How severe a finding is, from the most to the least severe."""

    ERROR = "error"  # certain to stop a job: Snakemake does not start
    WARNING = "warning"  # may cost time: Snakemake prints it and starts
    INFO = ""  # nothing is wrong, or nothing depends on it


ERROR, WARNING, INFO = Kind


@dataclass(frozen=True)
class Finding:
    """One line about the launch of a run."""

    kind: Kind
    line: str


def work_on_gpus(experiment: Experiment) -> dict[str, str]:
    """The rules whose jobs run models on GPUs, each with the setting that says so."""
    config = experiment.config
    if config.engine == "verl" and not experiment.trains_on_gpus:
        return {}  # with verl.device: cpu, vLLM may run on CPUs too
    work = {}
    if experiment.trains_on_gpus:
        work["train"] = "training (verl.device: cuda)"
    if config.sampler == "vllm":
        work["sample"] = "sampling (sampler: vllm)"
    if config.starts_judge:
        work["score"] = "a judge of its own (xverify.url: null)"
    return work


def gpus_by_model(experiment: Experiment) -> dict[str, int]:
    """The number of GPUs that train a cell, by the models that have cells in the grid."""
    return {cell.model: experiment.gpus_of(name) for name, cell in experiment.cells.items()}


# Without `eq`, a launch is hashed by its identity, which caches of functions need: a mapping has no
# hash.
@dataclass(frozen=True, eq=False)
class Launch:
    """A run of Snakemake with the SLURM profile, before it starts.

    profile: the content of slurm/config.yaml.
    requests: the request of each rule that the profile names, and that of `default-resources`.
    rules: the rules whose jobs the run submits; None for all rules of this experiment.
    slurm: the cluster; None if SLURM is not installed on this machine.
    """

    experiment: Experiment
    profile: Mapping[str, Any]
    requests: Mapping[str, Request]
    rules: frozenset[str] | None
    slurm: Slurm | None

    @classmethod
    def read(cls, experiment: Experiment, rules: frozenset[str] | None = None) -> "Launch":
        """Read slurm/config.yaml in the current folder.

        Raises: InputError if the profile is wrong.
        """
        profile, requests = read_profile()
        slurm = Slurm() if shutil.which("sinfo") else None
        return cls(experiment, profile, requests, rules, slurm)

    def runs(self, rule: str) -> bool:
        """Whether the run may submit jobs of a rule."""
        return self.rules is None or rule in self.rules

    def entry(self, rule: str) -> Request | None:
        """The request of a rule that has its own entry in the profile, and jobs in this run.

        Returns: None if the rule has no entry or no jobs.
        """
        return self.requests.get(rule) if self.runs(rule) else None

    def request(self, rule: str) -> Request:
        """The request of a rule: its own entry in the profile, or `default-resources`."""
        return self.requests.get(rule, self.requests[DEFAULT])

    @cached_property
    def used(self) -> list[Request]:
        """The requests that have jobs in this run, each once.

        Trainings have a request for each number of GPUs. If the rules are not known, some rule may
        use `default-resources`.
        """
        requests = []
        if self.rules is None or self.rules - self.requests.keys():
            requests.append(self.requests[DEFAULT])
        for rule, request in self.requests.items():
            if rule == DEFAULT or not self.runs(rule):
                continue
            if rule == "train" and self.experiment.trains_on_gpus:
                numbers = set(gpus_by_model(self.experiment).values())
                requests += [request.share(gpus) for gpus in sorted(numbers, reverse=True)]
            else:
                requests.append(request)
        return list(dict.fromkeys(requests))
