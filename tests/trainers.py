"""Runs the adapters in several versions of TRL and verl: `python -m tests.trainers [NAME ...]`.

    python -m tests.trainers                 # all versions: `make test-trainers`
    python -m tests.trainers trl-1.12.0      # one

Each version gets an environment in .trainers/, from the package index, beside the packages of the
environment that runs this. TRL trains a few steps there, and verl computes advantages. The results
are in tests/adapters/trainer_versions.json, to be committed; see `record` for the newest version.
"""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rspo.adapters import versions
from tests.adapters import own_environment
from tests.support import ROOT

FOLDER = ROOT / ".trainers"
RESULTS = ROOT / "tests" / "adapters" / "trainer_versions.json"
SECONDS = 900  # for the tests of one version
NEWEST = "newest"
# What verl 0.7 and 0.8 need in other versions than the packages beside them: numpy < 2, and what
# was built for it.
BEFORE_NUMPY_2 = ("numpy==1.26.4", "pandas==2.3.3", "pytz==2025.2", "pyarrow==21.0.0")
ACCELERATE = "accelerate==1.15.0"
LOADED = {
    "VERL_USE_EXTERNAL_MODULES": "rspo.adapters.verl_estimators,rspo.adapters.verl_validation"
}
CONTRACTS = {
    "trl": ("trl_contract.py", "trl_pass_at_k_contract.py", "trl_page_contract.py"),
    "verl": ("verl_contract.py",),
}


@dataclass(frozen=True)
class Case:
    """One version of a trainer; `NEWEST` is the last one in the package index."""

    package: str
    version: str

    @property
    def name(self) -> str:
        return f"{self.package}-{self.version}"

    @property
    def packages(self) -> tuple[str, ...]:
        chosen = f"{self.package}=={self.version}"
        if self.version == NEWEST:
            chosen = self.package
        if self.package == "trl":
            return (chosen, ACCELERATE)
        if self.version.startswith(("0.7.", "0.8.")):
            return (chosen,) + BEFORE_NUMPY_2
        return (chosen,)


TESTED = {"trl": versions.TRL, "verl": versions.VERL}
CASES = []
for package, tested in TESTED.items():
    CASES += [Case(package, version) for version in tested]
    CASES.append(Case(package, NEWEST))


def environment_of(case: Case) -> Path:
    """The Python of a version; made at the first run, and always for the newest version."""
    folder = FOLDER / case.name
    stamp = folder / "packages.txt"  # written last
    wanted = "\n".join(case.packages)
    if case.version != NEWEST and stamp.exists() and stamp.read_text() == wanted:
        return folder / "bin" / "python"
    python = own_environment.make(folder, case.packages, clear=True)
    stamp.write_text(wanted)
    return python


def installed(python: Path, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    return own_environment.run(python, "-c", code).strip()


def result_of(case: Case) -> tuple[str, str]:
    """The version, and the number of tests that passed or what failed."""
    found = case.version
    try:
        python = environment_of(case)
        found = installed(python, case.package)
        variables = LOADED if case.package == "verl" else {}
        count = 0
        for contract in CONTRACTS[case.package]:
            path = f"tests/adapters/{contract}"
            passed = own_environment.run_tests(python, path, SECONDS, **variables)
            count += int(passed.split()[0])
        return found, f"{count} passed"
    except AssertionError as error:
        print(error, file=sys.stderr)
        return found, "failed"
    except subprocess.TimeoutExpired:
        return found, f"took more than {SECONDS} s"


def record(results: dict[str, dict[str, str]], case: Case, found: str, result: str) -> None:
    """Put the result of a version into the results of all, by package and version.

    A version that is only the newest one of today counts as long as it passes: the file has no
    failure of it. Each tested version keeps its row, also if it fails.
    """
    of_package = results.setdefault(case.package, {})
    if case.version != NEWEST or result.endswith(" passed"):
        of_package[found] = result
    elif found not in TESTED[case.package]:
        of_package.pop(found, None)


def main(names: list[str]) -> int:
    """Run the versions with these names, or all; returns 1 if one failed, 2 for a wrong name."""
    unknown = sorted(set(names) - {case.name for case in CASES})
    if unknown:
        allowed = ", ".join(case.name for case in CASES)
        print(f"unknown {', '.join(unknown)}; allowed: {allowed}", file=sys.stderr)
        return 2
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    failed = False
    for case in CASES:
        if names and case.name not in names:
            continue
        start = time.monotonic()
        found, result = result_of(case)
        print(f"{case.package:6}{found:10}{result:24}{time.monotonic() - start:4.0f} s", flush=True)
        failed = failed or not result.endswith(" passed")
        record(results, case, found, result)
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
