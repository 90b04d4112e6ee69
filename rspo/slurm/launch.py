"""What the checks before a run read, and what they say."""

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

    rules: those whose jobs it submits; None: all of this experiment.
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
        """The rule's own entry of the profile; None without one, or if no such job runs."""
        return self.requests.get(rule) if self.runs(rule) else None

    def request(self, rule: str) -> Request:
        return self.requests.get(rule, self.requests[DEFAULT])

    @cached_property
    def used(self) -> list[Request]:
        """The requests of the rules that run."""
        named = [one for rule, one in self.requests.items() if rule != DEFAULT and self.runs(rule)]
        by_default = self.rules is None or self.rules - self.requests.keys()
        return [self.requests[DEFAULT], *named] if by_default else named
