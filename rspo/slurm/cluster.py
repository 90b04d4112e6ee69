"""Nodes, settings and limits of the SLURM cluster, as its commands report them."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property

from rspo.core.errors import InputError


@dataclass(frozen=True)
class NodeGroup:
    """The nodes of one partition that are equal in GPUs, memory and CPUs."""

    partition: str
    count: int
    minutes: float | None  # time limit of the partition; None: unlimited
    megabytes: int
    cpus: int
    gpus: dict[str, int]  # GPUs of each node by type; "" for GPUs without a type

    def gpus_of(self, kind: str | None) -> int:
        """GPUs of this type on each node; None: of the type with the most GPUs."""
        return max(self.gpus.values(), default=0) if kind is None else self.gpus.get(kind, 0)


class Slurm:
    """The cluster that this machine belongs to.

    Every query raises InputError if the cluster does not answer.
    """

    @staticmethod
    def is_here() -> bool:
        return shutil.which("sinfo") is not None

    @cached_property
    def nodes(self) -> list[NodeGroup]:
        groups = []
        for line in self.ask("sinfo", "-h", "-e", "-o", "%R|%D|%l|%m|%c|%G").splitlines():
            partition, count, limit, megabytes, cpus, gres = line.split("|")
            groups.append(
                NodeGroup(
                    partition,
                    int(count),
                    time_limit(limit),
                    int(megabytes.rstrip("+")),
                    int(cpus.rstrip("+")),
                    {
                        kind: int(number)
                        for kind, number in re.findall(r"gpu:(?:([A-Za-z][^:,(]*):)?(\d+)", gres)
                    },
                )
            )
        return groups

    @cached_property
    def settings(self) -> dict[str, str]:
        """The settings that `scontrol show config` prints."""
        lines = self.ask("scontrol", "show", "config").splitlines()
        pairs = (line.split("=", 1) for line in lines if "=" in line)
        return {name.strip(): value.strip() for name, value in pairs}

    @cached_property
    def preempt_modes(self) -> dict[str, str]:
        """PreemptMode, such as `REQUEUE`, by partition."""
        output = self.ask("scontrol", "--oneliner", "show", "partition")
        return dict(re.findall(r"PartitionName=(\S+).* PreemptMode=(\S+)", output))

    def refusal(self, *options: str) -> str:
        """Why SLURM would refuse a job with these options of `sbatch`; empty if it would not."""
        done = run("sbatch", "--test-only", *options, "--wrap=true")
        return " ".join(done.stderr.split()) if done.returncode else ""

    def allows_requeue(self, *options: str) -> bool:
        """Whether a job with these options may be requeued.

        Submits such a job on hold and cancels it at once: a cluster's submit plugin may forbid what
        its settings allow.
        """
        held = ("--parsable", "--hold", "--requeue", "--output=/dev/null")
        number = self.ask("sbatch", *held, *options, "--wrap=true").strip().split(";")[0]
        try:
            return "Requeue=1" in self.ask("scontrol", "show", "job", number).split()
        finally:
            self.ask("scancel", number)

    def ask(self, *words: str, seconds: float = 60) -> str:
        """Output of a SLURM command."""
        done = run(*words, seconds=seconds)
        if done.returncode:
            raise _no_answer(words[0], done.stderr or f"exit status {done.returncode}")
        return done.stdout


def run(*words: str, seconds: float = 60) -> "subprocess.CompletedProcess[str]":
    """Run a SLURM command; bytes that are not UTF-8 are decoded as in file names.

    Raises: InputError if it is not installed or does not end in time.
    """
    try:
        return subprocess.run(
            words, capture_output=True, text=True, errors="surrogateescape", timeout=seconds
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _no_answer(words[0], str(error)) from None


def _no_answer(command: str, reason: str) -> InputError:
    return InputError(f"SLURM does not answer ({command}: {' '.join(reason.split())})")


def time_limit(text: str) -> float | None:
    """SLURM's `2-00:00:00`, `4:00:00` or `30:00` in minutes; None for `infinite`."""
    if not (match := re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60
