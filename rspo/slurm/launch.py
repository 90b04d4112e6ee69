"""What the checks before a run read (`Launch`), and what they report (`Finding`)."""

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
    """How severe a finding is; the most severe comes first."""

    ERROR = "error"  # certain to stop a job: Snakemake does not start
    WARNING = "warning"  # may cost time: Snakemake prints it and starts
    INFO = ""  # right, or not checked


ERROR, WARNING, INFO = Kind


@dataclass(frozen=True)
class Finding:
    """One line about the launch of a run."""

    kind: Kind
    line: str


@dataclass(frozen=True, eq=False)  # hashed by identity
class Launch:
    """A run of Snakemake with the SLURM profile.

    profile: the content of slurm/config.yaml.
    requests: the request of each rule that the profile names, and of `default-resources`.
    rules: the rules whose jobs the run submits; None for all rules of this experiment.
    slurm: None where SLURM is not installed.
    """

    experiment: Experiment
    profile: Mapping[str, Any]
    requests: Mapping[str, Request]
    rules: frozenset[str] | None
    slurm: Slurm | None

    @classmethod
    def read(cls, experiment: Experiment, rules: frozenset[str] | None = None) -> "Launch":
        """Read slurm/config.yaml in the current folder."""
        profile, requests = read_profile()
        slurm = Slurm() if shutil.which("sinfo") else None
        return cls(experiment, profile, requests, rules, slurm)

    def runs(self, rule: str) -> bool:
        """Whether the run may submit jobs of a rule."""
        return self.rules is None or rule in self.rules

    def entry(self, rule: str) -> Request | None:
        """The entry that a rule has in the profile; None if it has none, or if no such job runs."""
        return self.requests.get(rule) if self.runs(rule) else None

    def request(self, rule: str) -> Request:
        """The resources that the jobs of a rule request."""
        return self.requests.get(rule, self.requests[DEFAULT])

    @cached_property
    def used(self) -> list[Request]:
        """The requests of the rules that run."""
        requests = []
        if self.rules is None or self.rules - self.requests.keys():
            requests.append(self.requests[DEFAULT])
        for rule, request in self.requests.items():
            if rule != DEFAULT and self.runs(rule):
                requests.append(request)
        return requests
