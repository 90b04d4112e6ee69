"""Objectives of installed packages, in processes of their own that have a package on their path."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import ROOT, pages

MODULE = """
print("imported")
from rspo.objectives import KRule, Objective

def above_mean(rewards, k):
    return (rewards - rewards.mean(-1, keepdims=True)) / rewards.shape[-1]

ABOVE_MEAN = Objective("above_mean", above_mean, KRule.NONE, version=2)
OTHER = Objective("other", above_mean, KRule.NONE)
"""
GRID = "{main: {suite: standard, seeds: 1, cells: [{model: small, objective: above_mean, n: 4}]}}"
WEIGHTS = "from rspo.objectives import response_weights as f; print(f([1, 0, 0, 1], {!r}))"
PACKAGE = "in rspo.objectives of the package own-objectives 1.2"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder with an installed package, without its entry points."""
    folder = tmp_path / "packages"
    information = folder / "own_objectives-1.2.dist-info"
    information.mkdir(parents=True)
    metadata = "Metadata-Version: 2.1\nName: own-objectives\nVersion: 1.2\n"
    (information / "METADATA").write_text(metadata)
    (folder / "own_objectives.py").write_text(MODULE)
    return folder


def declare(packages: Path, *entries: str) -> None:
    (information,) = packages.glob("*.dist-info")
    lines = "\n".join(("[rspo.objectives]", *entries))
    (information / "entry_points.txt").write_text(lines)


def start(packages: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{packages}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=packages.parent,
        env=environment,
        capture_output=True,
        text=True,
    )


def run(packages: Path, *words: str) -> list[str]:
    """Lines of standard output of a process that must succeed."""
    done = start(packages, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_response_weights_and_diagnose_know_it(packages: Path) -> None:
    declare(packages, "above_mean = own_objectives:ABOVE_MEAN")
    lines = run(packages, "-c", WEIGHTS.format("above_mean"))
    assert lines == ["imported", "[ 0.125 -0.125 -0.125  0.125]"]
    lines = run(packages, "-m", "rspo", "diagnose", "above_mean", "--n", "4")
    assert lines[1] == "above_mean, n = 4, 0/1 rewards"
    assert lines[2].split() == ["weights:", "unbiased", "for", "0.75", "times", "Pass@1"]


def test_a_package_as_in_the_documentation_works(packages: Path) -> None:
    blocks = pages.blocks(ROOT / "docs" / "add" / "objective.md")
    (declared,) = (block.text for block in blocks if block.language == "toml")
    entries = tomllib.loads(declared)["project"]["entry-points"]["rspo.objectives"]
    declare(packages, *(f"{name} = {value}" for name, value in entries.items()))
    source = re.sub(r"register\((.*)\)$", r"TOP_TWO_MEAN = \1", blocks[0].text.rstrip("\n"))
    (packages / "my_package").mkdir()
    (packages / "my_package" / "objectives.py").write_text(source)
    code = "from rspo.objectives import response_weights as f; print(f([1, 0, 1, 1], {!r}, 2))"
    assert run(packages, "-c", code.format("top_two_mean")) == ["[0.5 0.  0.5 0.5]"]


def test_the_grid_of_a_config_has_cells_of_it_with_its_version(packages: Path) -> None:
    declare(packages, "above_mean = own_objectives:ABOVE_MEAN")
    shutil.copytree(ROOT / "config", packages.parent / "config")
    code = (
        "import yaml; from rspo.config.experiment import Experiment; "
        "from rspo.config import steps; "
        f"experiment = Experiment.load(overrides={{'grid': yaml.safe_load('''{GRID}''')}}); "
        "print([steps.train(experiment, cell).settings['objective_version'] for cell in "
        "experiment.cells if 'above-mean--k1--n4' in cell])"
    )
    assert run(packages, "-c", code) == ["imported", "[2]"]
    lines = run(packages, "-m", "rspo", "status", "--set", f"grid={GRID}")
    assert any(line.startswith("small--above-mean--k1--n4--s0") for line in lines), lines


def test_its_package_is_imported_for_its_own_objectives_only(packages: Path) -> None:
    declare(packages, "above_mean = own_objectives:ABOVE_MEAN", "broken = no_such_module:BROKEN")
    code = "from rspo.objectives import *; compared(); print('importlib.metadata' in sys.modules)"
    built_in = WEIGHTS.replace("{!r}", "'grpo'")
    assert run(packages, "-S", "-c", f"import sys; sys.path += {sys.path}; {code}") == ["False"]
    assert run(packages, "-c", built_in)[0].startswith("[")
    code = "from rspo.objectives import *; print([*OBJECTIVES][-2:], 'broken' in OBJECTIVES)"
    assert run(packages, "-c", code) == ["['above_mean', 'broken'] True"]
    assert run(packages, "-c", WEIGHTS.format("above_mean"))[0] == "imported"
    error = start(packages, "-c", WEIGHTS.format("abov_mean")).stderr.splitlines()[-1]
    assert error.endswith("w_reinforce, above_mean, broken")


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("mine = no_such_module:MINE", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("mine = own_objectives:MINE", "AttributeError: module 'own_objectives' has no"),
        ("mine = own_objectives:above_mean", "must be an Objective, got a function"),
        ("mine = own_objectives:OTHER", "is named 'other'; use one name for both"),
        ("grpo = own_objectives:OTHER", "'grpo' exists already; choose another name"),
        ("rspo_pass = own_objectives:OTHER", "'rspo_pass_at_k' exists already; choose another"),
        ("Mine = own_objectives:OTHER", "allowed: lower-case letters, digits and single _"),
    ],
)
def test_an_entry_point_that_is_wrong_is_one_line_when_it_is_used(
    packages: Path, entry: str, reason: str
) -> None:
    declare(packages, entry)
    last = start(packages, "-c", WEIGHTS.format("mine")).stderr.splitlines()[-1]
    assert last.startswith(f"ValueError: entry point {entry} {PACKAGE}: "), last
    assert reason in last
