"""Ends with one line that says why envs/gpu.lock does not fit this machine or Python, if so."""

import platform
import sys

OLDEST_GLIBC = (2, 31)  # every package of the lock that is compiled has a wheel from there on


def misfits() -> list[str]:
    """What would have to be different."""
    found = []
    if sys.version_info[:2] != (3, 12):
        found.append(f"Python 3.12 (this is {platform.python_version()}: {sys.executable})")
    machine = (platform.system(), platform.machine())
    if machine != ("Linux", "x86_64"):
        found.append(f"Linux on x86_64 (this is {' on '.join(machine)})")
    else:
        library, version = platform.libc_ver()
        if library != "glibc" or tuple(map(int, version.split(".")[:2])) < OLDEST_GLIBC:
            found.append(f"glibc 2.31 or newer (this is {library or 'another'} {version})")
    return found


if __name__ == "__main__":
    if needs := misfits():
        sys.exit(f"error: envs/gpu.lock is for {', '.join(needs)}")
