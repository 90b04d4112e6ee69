"""Mutation tests: small faults in the modules where a fault would be a wrong result.

    python -m tests.mutants GROUP ...

Puts faults into the modules of each group with mutmut, one at a time, and runs the group's own
tests on each. Fails if they find too few of the faults, or if one that they miss is not listed in
tests/equivalent_mutants.txt with the reason why it changes no result.

All faults would take hours, so each group takes a fixed sample of 60 to 220: the faults whose names
have a suitable hash. A name consists of the module, the function and a number within the function,
so the sample of a function stays the same until that function changes.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import chdir
from typing import NamedTuple

from tests.support import ROOT

EQUIVALENT = ROOT / "tests" / "equivalent_mutants.txt"
COPY = ROOT / "build" / "mutants" / "checkout"


class Group(NamedTuple):
    """Modules and their tests.

    modules: patterns of files. tests: arguments of pytest.
    one_in: of how many faults one is taken.
    elsewhere: beginning of the names of tests that call the modules in another process, where
        mutmut does not see it. They run for the faults that the others do not find.
    least: fraction of the faults that the tests must find.
    leave: patterns of lines, and of calls that begin on such a line, that get no faults.
    """

    modules: list[str]
    tests: list[str]
    one_in: int
    elsewhere: str = ""
    least: float = 0.9
    leave: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The top-level package of the modules."""
        return self.modules[0].partition("/")[0]


def folder(name: str, one_in: int, *more_tests: str) -> Group:
    """The modules of a folder of rspo, whose faults the tests of the same folder find."""
    return Group([f"rspo/{name}/*.py"], [f"tests/{name}", *more_tests], one_in, least=0.85)


RAISED = "^ *raise "  # what an error says is no result
# What only moves or colours something in a picture.
LOOKS = (
    r"\.(set|set_\w+|text|annotate|axhline|axvline|vlines|grid|margins|tick_params)\(",
    r"^ *\w*(size|color|colour|width|widths|marker|cmap|pad|spacing|length)=",
    r"new_picture\(|subplots\(|subfigures\(|make_log",
    r"\bLook\(|replace\(look|\.colour$|ListedColormap",
)

# For tests/training/test_published_model.py.
NO_WHOLE_CELLS = "-k not interrupted and not killed and not start"
GROUPS = {
    "objectives": Group(
        ["rspo/objectives/*.py", "rspo/estimators.py", "rspo/passk.py"],
        [
            "tests/objectives",
            *(f"tests/test_{one}.py" for one in ("estimators", "check_pass_at_k", "passk")),
            "-k not a_copy",  # runs the file without the package, and so without mutmut
        ],
        one_in=16,
    ),
    "statistics": Group(
        ["rspo/evaluation/statistics.py"],
        [
            *(
                f"tests/evaluation/test_{one}.py"
                for one in ("statistics", "seed_variance", "curves")
            ),
            "-k not cover_the_truth_where",  # half a minute of simulation
        ],
        one_in=5,
    ),
    "local": Group(
        ["rspo/training/local.py", "rspo/training/simulated_errors.py"],
        [
            "tests/training/test_local.py",
            "tests/training/test_simulated_errors.py",
            "tests/training/test_published_model.py",
            NO_WHOLE_CELLS,
        ],
        one_in=3,
    ),
    "sampler": Group(
        ["rspo/policies/sampler.py"],
        [
            "tests/policies/test_policies.py",
            "tests/policies/test_published_weights.py",
            "tests/training/test_published_model.py",
            NO_WHOLE_CELLS,
        ],
        one_in=2,
    ),
    "verl": Group(
        [
            "rspo/training/verl/trainer.py",
            "rspo/training/verl/batches.py",
            "rspo/adapters/verl_advantages.py",
        ],
        ["tests/training/verl/test_trainer.py", "tests/adapters/test_verl_advantages.py"],
        one_in=12,
        elsewhere="tests/training/verl/test_trainer.py",
    ),
    "rules": Group(
        ["rspo/rewards/rules/*.py"],
        ["tests/rewards/test_attacks.py", "tests/rewards/test_rules.py"],
        one_in=40,
        elsewhere="tests/rewards/test_rules",
    ),
    "analysis": folder("analysis", 35, "tests/report/test_published.py", "-k not results_page"),
    "config": folder("config", 11),
    "core": folder("core", 10),
    # test_imports.py starts commands in another folder, where mutmut does not find its settings.
    "evaluation": folder("evaluation", 25, "--ignore=tests/evaluation/test_imports.py"),
    "figures": folder("figures", 60)._replace(leave=LOOKS),
    "pipeline": Group(
        ["rspo/pipeline/*.py"],
        # Not those that first make a small paper, which takes half a minute for each fault.
        [
            f"tests/pipeline/test_{one}.py"
            for one in ("cost", "history", "provenance", "run", "state", "tasks", "usage")
        ],
        one_in=15,
        least=0.85,
    ),
    "report": folder("report", 12),
    "slurm": folder("slurm", 15, "--ignore=tests/slurm/test_without_slurm.py"),
    "snakemake": Group(
        # Without the modules whose tests run Snakemake in a folder where mutmut finds no settings.
        [f"rspo/snakemake/{name}.py" for name in ("preflight", "progress", "start")],
        [f"tests/snakemake/test_{name}.py" for name in ("preflight", "progress", "start")],
        one_in=8,
        least=0.85,
    ),
    "status": folder("status", 4, "--ignore=tests/status/test_log_handler.py"),
    "executor-plugin": Group(
        # Without start.py, whose tests run it in a folder where mutmut finds no settings.
        [
            f"snakemake_executor_plugin_slurm_patient/{name}.py"
            for name in ("executor", "failures", "queue", "task")
        ],
        ["tests/executor_plugin", "--ignore=tests/executor_plugin/test_start.py"],
        one_in=10,
        least=0.85,
    ),
}

SETTINGS = """
[tool.mutmut]
source_paths = ["{group.package}"]
only_mutate = {group.modules}
also_copy = {others}
do_not_mutate_patterns = {left}
pytest_add_cli_args = ["-x", "-q", "-p", "no:cacheprovider"]
pytest_add_cli_args_test_selection = {group.tests}
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
    chosen = [fault for fault in faults_of(group) if hash_of(fault) % group.one_in == 0]
    missed = missed_of(chosen)
    if group.elsewhere and missed:
        let_run(group.elsewhere, missed)
        missed = missed_of(missed)
    changes = {fault: change_of(fault) for fault in missed}
    blocks = EQUIVALENT.read_text().strip().split("\n\n")
    listed = {re.sub(": .*", "", block, count=1) for block in blocks}
    unlisted = [fault for fault, change in changes.items() if change not in listed]
    for fault in unlisted:
        print(f"{fault}\n{changes[fault]}\n")
    print(f"{name}: {1 - len(missed) / len(chosen):.1%} of {len(chosen)} faults found")
    return len(missed) <= (1 - group.least) * len(chosen) and not unlisted


def hash_of(fault: str) -> int:
    return int(hashlib.sha256(fault.encode()).hexdigest(), 16)


def faults_of(group: Group) -> list[str]:
    """Copy the checkout for mutmut, and name all faults that it knows for a group.

    mutmut leaves decorated functions alone, so those without gradients get their decorator at the
    end of the module, and those with a cache lose it.
    """
    from mutmut.mutation.file_mutation import mutate_file_contents
    from mutmut.utils.format_utils import get_mutant_name

    shutil.rmtree(COPY.parent, ignore_errors=True)
    COPY.mkdir(parents=True)
    copy = f"git ls-files -z | xargs -0 cp --parents -t {COPY}"
    subprocess.run(copy, shell=True, cwd=ROOT, check=True)
    others = [path.name for path in COPY.iterdir() if path.name != group.package]
    (COPY / "mutants").mkdir()  # Python ignores folders of PYTHONPATH that it does not find
    for folder in (COPY.parent, COPY):
        (folder / "shared").symlink_to(ROOT.parent / "shared")
    with (COPY / "pyproject.toml").open("a") as pyproject:
        left = json.dumps([RAISED] + list(group.leave))
        pyproject.write(SETTINGS.format(group=group, others=others, left=left))
    names = []
    for file in sorted(file for pattern in group.modules for file in COPY.glob(pattern)):
        text = re.sub(r"^@lru_cache.*\n", "", file.read_text(), flags=re.MULTILINE)
        text, *decorated = re.split(r"^@(torch.inference_mode\(\))\ndef (\w+)", text, flags=re.M)
        while decorated:
            decorator, function, rest, *decorated = decorated
            text += f"def {function}{rest}\n\n{function} = {decorator}({function})\n"
        file.write_text(text)
        with chdir(COPY):  # for the settings
            path = file.relative_to(COPY)
            faults = mutate_file_contents(str(path), text).mutant_names
            names += [get_mutant_name(path, fault) for fault in faults]
    return names


def missed_of(faults: list[str]) -> list[str]:
    """Those that the tests do not find."""
    mutmut("run", "--max-children", str(len(os.sched_getaffinity(0))), *faults)
    status = status_of(faults)
    slow = [fault for fault in faults if status[fault] == "timeout"]
    if slow:
        print(f"{len(slow)} faults made the tests exceed their time limit: {', '.join(slow)}")
    return [fault for fault in faults if status[fault] in ("survived", "no tests")]


def status_of(faults: list[str]) -> dict[str, str]:
    """mutmut's word for what became of each fault, such as "killed"."""
    status = dict(line.strip().split(": ") for line in mutmut("results", "--all", "true"))
    assert not any(status[fault] == "not checked" for fault in faults)
    return status


def let_run(tests: str, faults: list[str]) -> None:
    """Tell mutmut that these tests call the functions of the faults."""
    file = COPY / "mutants" / "mutmut-stats.json"
    stats = json.loads(file.read_text())
    names = [name for name in stats["duration_by_test"] if name.startswith(tests)]
    stats["duration_by_test"][names[0]] = 20.0  # for the limit of time: it counts no fixtures
    for fault in faults:
        stats["tests_by_mangled_function_name"][fault.partition("__mutmut_")[0]] = names
    file.write_text(json.dumps(stats))


def mutmut(*arguments: str) -> list[str]:
    """What a command of mutmut prints, in lines."""
    environment = os.environ | {
        "CI": "true",  # a test that cannot run fails, and hypothesis draws the same examples
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{COPY / 'mutants'}:{os.environ.get('PYTHONPATH', '')}",
    }
    command = [sys.executable, "-m", "mutmut", *arguments]
    run = subprocess.run(command, cwd=COPY, env=environment, text=True, capture_output=True)
    if run.returncode:
        sys.exit(f"{run.stdout[-20000:]}\n{run.stderr}")
    return run.stdout.splitlines()


def change_of(fault: str) -> str:
    """Function and change of a fault, as tests/equivalent_mutants.txt has them with a reason."""
    lines = [line for line in mutmut("show", fault) if re.match(r"[-+](?![-+]{2} )", line)]
    return without_comments("\n".join((fault.partition("__mutmut_")[0], *lines)))


def without_comments(text: str) -> str:
    """A text without the comments at the ends of its lines, which may change without the code."""
    return re.sub("  # .*", "", text)


if __name__ == "__main__":
    main()
