"""Check that this environment is what a lock file says, and that it imports.

    python envs/check.py LOCK MODULE...

Ends with an error that names every package of LOCK that is absent or of another version, and
every MODULE that cannot be imported.
"""

import importlib
import sys
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement


def installed(name: str) -> str | None:
    try:
        return version(name).partition("+")[0]  # 2.13.0+cpu and 2.13.0 are the same release
    except PackageNotFoundError:
        return None


def main(lock: str, modules: list[str]) -> int:
    problems = 0
    for line in Path(lock).read_text(encoding="utf-8").splitlines():
        line = line.partition("#")[0].strip()
        if not line:
            continue
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate():
            continue
        found = installed(requirement.name)
        if found is None or not requirement.specifier.contains(found, prereleases=True):
            print(f"error: {lock} wants {line}, installed is {found}", file=sys.stderr)
            problems += 1
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:
            traceback.print_exc()
            print(f"error: cannot import {module}", file=sys.stderr)
            problems += 1
    if problems:
        print(f"error: .venv is not usable: {problems} problem(s), see above", file=sys.stderr)
        return 1
    print(f"ok: .venv is as {lock} says; {', '.join(modules)} can be imported")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
