"""Queries of the SLURM cluster, which call the commands of SLURM."""

import os
import re
import subprocess
from functools import cached_property

from rspo.core.errors import InputError

# The commands of SLURM do not get environment variables that begin like this. With the first three
# prefixes, users change what commands list or cancel. If `rspo` itself runs inside a job, the
# commands do not get that job's variables either: `srun` would start a step of that job instead of
# a job on the node to check. SLURM_CONF, which names the cluster's configuration, stays.
_OPTIONS = re.compile("(SQUEUE|SINFO|SCANCEL)_")
_OPTIONS_IN_JOB = re.compile("(SQUEUE|SINFO|SCANCEL|SLURM)_(?!CONF$)")
# The states of nodes on which jobs may start, at once or after the jobs that run there.
_UP = {"allocated", "completing", "idle", "mixed"}


class NoAnswer(InputError):
    """A command of SLURM failed, or is not installed."""


class Refused(InputError):
    """SLURM does not accept a job. The message is SLURM's."""


class Slurm:
    """The cluster to which this machine belongs.

    Every method raises NoAnswer if the cluster does not answer.
    """

    @cached_property
    def partitions(self) -> dict[str, dict[str, str]]:
        """The settings of each partition, such as MaxTime, by the name of the partition."""
        output = self.ask("scontrol", "--all", "--oneliner", "show", "partition")
        partitions = {}
        for line in output.splitlines():
            if line.strip():
                settings = _settings(line)
                partitions[settings["PartitionName"]] = settings
        return partitions

    def later_job(self, *options: str) -> dict[str, str]:
        """The settings that SLURM gives to a job with some options of `sbatch`.

        This submits a job that begins in a week, and cancels it at once. `sbatch --test-only` would
        not do, because it also refuses a job whose nodes are down for the moment.

        Args:
            options: options of `sbatch`, such as "--partition=gpu".

        Returns: what `scontrol show job` prints, such as TimeLimit, by name.

        Raises: Refused if SLURM does not accept the job.
        """
        name = f"rspo-doctor-{os.urandom(4).hex()}"
        later = ("--parsable", "--begin=now+7days", "--requeue", "--output=/dev/null")
        done = run("sbatch", *later, *options, f"--job-name={name}", "--wrap=true")
        if done.returncode:
            raise Refused(" ".join(done.stderr.split()))
        # With --parsable, `sbatch` prints NUMBER or NUMBER;CLUSTER. A cluster may have its own
        # `sbatch`, which prints more lines.
        numbers = re.findall(r"^(\d+)(?:;\S+)?$", done.stdout, re.M)
        try:
            if not numbers:
                raise _no_answer("sbatch", f"no job number in its output: {done.stdout}")
            return _settings(self.ask("scontrol", "--oneliner", "show", "job", numbers[-1]))
        finally:  # by its name, because the number may be unknown
            self.ask("scancel", f"--name={name}")

    def never_starts(self, partition: str, *options: str) -> bool:
        """Whether no node of a partition has the resources of a job that SLURM accepts.

        False if a node is down, because SLURM does not say whether that node would fit.

        Args:
            options: the job's options of `sbatch`.
        """
        # If no node fits, SLURM says "Requested node configuration is not available".
        done = run("sbatch", "--test-only", *options, "--wrap=true")
        states = self.ask("sinfo", f"--partition={partition}", "-h", "-o", "%T").split()
        return "configuration" in done.stderr and set(states) <= _UP

    def ask(self, *words: str, seconds: float = 60) -> str:
        """Run a SLURM command and return its output.

        Args:
            words: the command and its arguments.
            seconds: the timeout.
        """
        done = run(*words, seconds=seconds)
        if done.returncode:
            raise _no_answer(words[0], done.stderr or f"exit status {done.returncode}")
        return done.stdout


def run(*words: str, seconds: float = 60) -> "subprocess.CompletedProcess[str]":
    """Run a SLURM command, whose exit status the caller must check.

    Bytes that are not UTF-8 are decoded as Python decodes file names.

    Raises: NoAnswer if the command is not installed or does not end within `seconds`.
    """
    left_out = _OPTIONS_IN_JOB if "SLURM_JOB_ID" in os.environ else _OPTIONS
    environment = {name: value for name, value in os.environ.items() if not left_out.match(name)}
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=seconds,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _no_answer(words[0], str(error)) from None


def _settings(line: str) -> dict[str, str]:
    """The words `NAME=VALUE` in a line of `scontrol`."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def _no_answer(command: str, reason: str) -> NoAnswer:
    """The exception for a command that failed, with its error output on one line."""
    lines = [line.removeprefix(f"{command}: ") for line in reason.splitlines()]
    words = " ".join(lines).split()
    return NoAnswer(f"SLURM does not answer ({command}: {' '.join(words)})")


def time_limit(text: str) -> float | None:
    """The minutes of a time limit of SLURM: `2-00:00:00`, `4:00:00` or `30:00`.

    Returns: None for other texts, such as `infinite` and `UNLIMITED`.
    """
    # [DAYS-][HOURS:]MINUTES:SECONDS
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60
