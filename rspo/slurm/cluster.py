"""What a SLURM cluster says of itself."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property

from rspo.errors import InputError


@dataclass(frozen=True)
class Nodes:
    """Alike nodes of one partition."""

    partition: str
    count: int
    minutes: float | None  # time limit; None: none
    megabytes: int
    cpus: int
    gpus: dict[str, int]  # by type, of each node; "" for GPUs without one


class Slurm:
    """The cluster that this machine belongs to.

    Raises: InputError, at any question, if the cluster does not answer.
    """

    @staticmethod
    def is_here() -> bool:
        return shutil.which("sinfo") is not None

    @cached_property
    def nodes(self) -> list[Nodes]:
        found = []
        for line in self.ask("sinfo", "-h", "-e", "-o", "%R|%D|%l|%m|%c|%G").splitlines():
            partition, count, limit, megabytes, cpus, gres = line.split("|")
            found.append(
                Nodes(
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
        return found

    @cached_property
    def settings(self) -> dict[str, str]:
        """What `scontrol show config` says, with `PreemptMode = CANCEL` as `CANCEL`."""
        lines = self.ask("scontrol", "show", "config").splitlines()
        pairs = (line.split("=", 1) for line in lines if "=" in line)
        return {name.strip(): value.strip() for name, value in pairs}

    def accounts(self) -> set[str] | None:
        """Accounts that this user may charge; None where nobody keeps accounts."""
        if self.settings.get("AccountingStorageType", "") != "accounting_storage/slurmdbd":
            return None
        user = self.ask("id", "-un").strip()
        said = self.ask("sacctmgr", "-n", "-P", "show", "assoc", f"user={user}", "format=account")
        return {line.strip() for line in said.splitlines() if line.strip()}

    def ask(self, *words: str, seconds: float = 60) -> str:
        """What a command printed."""
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=seconds, check=True
            )
        except (OSError, subprocess.SubprocessError) as error:
            reason = " ".join((getattr(error, "stderr", None) or str(error)).split())
            raise InputError(f"SLURM does not answer ({words[0]}: {reason})") from None
        return done.stdout


def time_limit(text: str) -> float | None:
    """SLURM's `2-00:00:00`, `4:00:00` or `30:00` in minutes; None for `infinite`."""
    if not (found := re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * 1440 + hours * 60 + minutes + seconds / 60
