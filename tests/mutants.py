"""Mutation tests: small faults in the modules where a fault would be a wrong result.

    python -m tests.mutants GROUP ...

Puts faults into the modules of each group with mutmut, one at a time, and runs the group's own
tests on each. Fails if they find fewer than 90 % of the faults, or if one that they miss is not
listed in tests/equivalent_mutants.txt with the reason why it changes no result.

All faults would take hours, so each group takes a fixed sample of about 130: the faults whose names
have a suitable hash. A name consists of the module, the function and a number within the function,
so the sample of a function stays the same until that function changes.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

from tests.support import ROOT

EQUIVALENT = ROOT / "tests" / "equivalent_mutants.txt"
COPY = ROOT / "build" / "mutants" / "checkout"
SLOW = (
    "tests/evaluation/test_seed_variance.py::"
    "test_intervals_of_all_pairs_of_methods_cover_95_percent"
)
LEAST = 0.9  # fraction of a group's faults that its tests find


class Group(NamedTuple):
    """modules: patterns of files. tests: as for pytest. one_in: of how many faults one is taken."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    one_in: int


GROUPS = {
    "objectives": Group(
        ("rspo/objectives/*.py", "rspo/estimators.py"),
        ("tests/objectives", "tests/test_estimators.py"),
        16,
    ),
    "statistics": Group(
        ("rspo/evaluation/statistics.py",),
        (
            "tests/evaluation/test_statistics.py",
            "tests/evaluation/test_seed_variance.py",
            "tests/evaluation/test_curves.py",
            f"--deselect={SLOW}",
        ),
        5,
    ),
    "local": Group(
        ("rspo/training/local.py",),
        ("tests/training/test_local.py", "tests/training/test_fixed_errors.py"),
        3,
    ),
    "sampler": Group(
        ("rspo/policies/sampler.py",),
        ("tests/policies/test_policies.py",),
        2,
    ),
    "verl": Group(
        tuple(f"rspo/training/verl/{one}.py" for one in ("trainer", "batches", "advantages")),
        ("tests/training/verl",),
        6,
    ),
    "rules": Group(("rspo/rewards/rules/*.py",), ("tests/rewards",), 40),
}

SETTINGS = """
[tool.mutmut]
source_paths = ["rspo"]
only_mutate = {modules}
also_copy = {files}
do_not_mutate_patterns = ["^ *raise "] # what an error says is no result
pytest_add_cli_args = ["-x", "-q", "-p", "no:cacheprovider"]
pytest_add_cli_args_test_selection = {tests}
timeout_constant = 4.0
use_git_change_detection = false
track_dependencies = false
"""


def main() -> None:
    failed = [name for name in sys.argv[1:] or GROUPS if not passes(name)]
    sys.exit(f"faults are not found: {', '.join(failed)}" if failed else 0)


def passes(name: str) -> bool:
    """Whether the tests of a group find its faults; prints those that they miss."""
    group = GROUPS[name]
    copy_checkout(group)
    chosen = [fault for fault in all_faults(group) if is_chosen(fault, group.one_in)]
    mutmut("run", "--max-children", str(len(os.sched_getaffinity(0))), *chosen)
    status = dict(line.strip().split(": ") for line in mutmut("results", "--all", "true"))
    assert not any(status[fault] == "not checked" for fault in chosen)
    missed = [fault for fault in chosen if status[fault] in ("survived", "no tests")]
    changes = {fault: change(mutmut("show", fault)) for fault in missed}
    unlisted = [fault for fault in missed if changes[fault] not in listed()]
    for fault in unlisted:
        print(f"{fault}\n{changes[fault]}")
    print(f"{name}: {1 - len(missed) / len(chosen):.1%} of {len(chosen)} faults found")
    return len(missed) <= (1 - LEAST) * len(chosen) and not unlisted


def copy_checkout(group: Group) -> None:
    """Copy the files that git knows, with mutmut's settings for a group.

    mutmut leaves decorated functions alone, so those without gradients get their decorator at the
    end of the module, and those with a cache lose it.
    """
    shutil.rmtree(COPY.parent, ignore_errors=True)
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    for file in files:
        (COPY / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, COPY / file)
    (COPY / "mutants").mkdir()  # Python ignores folders of PYTHONPATH that it does not find
    for folder in (COPY.parent, COPY):
        (folder / "shared").symlink_to(ROOT.parent / "shared")
    for module in modules(group):
        decorated = r"^(@torch\.inference_mode\(\))\n(def (\w+))"
        text = (COPY / module).read_text()
        for decorator, _, function in re.findall(decorated, text, re.MULTILINE):
            text += f"\n\n{function} = {decorator[1:]}({function})\n"
        text = re.sub(decorated, r"\2", text, flags=re.MULTILINE)
        (COPY / module).write_text(re.sub(r"^@lru_cache.*\n", "", text, flags=re.MULTILINE))
    settings = SETTINGS.format(
        modules=list(group.modules),
        tests=list(group.tests),
        files=sorted({file.split("/")[0] for file in files} - {"rspo"}),
    )
    with (COPY / "pyproject.toml").open("a") as pyproject:
        pyproject.write(settings)


def modules(group: Group) -> Iterator[Path]:
    for pattern in group.modules:
        yield from (path.relative_to(COPY) for path in sorted(COPY.glob(pattern)))


def all_faults(group: Group) -> list[str]:
    """The names of the faults that mutmut knows for the modules of a group."""
    from mutmut.mutation.file_mutation import mutate_file_contents
    from mutmut.utils.format_utils import get_mutant_name

    with chdir(COPY):  # for the settings
        return [
            get_mutant_name(module, name)
            for module in modules(group)
            for name in mutate_file_contents(str(module), module.read_text()).mutant_names
        ]


def is_chosen(fault: str, one_in: int) -> bool:
    return int(hashlib.sha256(fault.encode()).hexdigest(), 16) % one_in == 0


def mutmut(*arguments: str) -> list[str]:
    """What a command of mutmut prints, in lines."""
    variables = {
        "CI": "true",  # a test that cannot run fails, and hypothesis draws the same examples
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{COPY / 'mutants'}:{os.environ.get('PYTHONPATH', '')}",
    }
    command = [sys.executable, "-m", "mutmut", *arguments]
    environment = os.environ | variables
    run = subprocess.run(command, cwd=COPY, env=environment, text=True, capture_output=True)
    if run.returncode:
        sys.exit(f"{run.stdout[-20000:]}\n{run.stderr}")
    return run.stdout.splitlines()


def change(shown: list[str]) -> str:
    """A fault as the list of equivalent ones has it: its file, and the lines before and after."""
    return "\n".join(line for line in shown if line[:1] in "-+" and not line.startswith("+++"))


def listed() -> set[str]:
    """The faults of tests/equivalent_mutants.txt, without their reasons."""
    blocks = EQUIVALENT.read_text().strip().split("\n\n")
    return {change(block.splitlines()) for block in blocks}


if __name__ == "__main__":
    main()
