"""A target that no rule makes is answered with one that exists."""

from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.status.targets import targets_by_name
from tests.support import ROOT
from tests.support.snakemake_project import make_project, snakemake

CELL = "small--rspo-pass--k4--n16--s0"
POLICY = f"results/tiny/cells/{CELL}/policy"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which nothing has run."""
    return make_project(tmp_path_factory.mktemp("project"))


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        (CELL, POLICY),
        (f"results/tiny/cells/{CELL}", POLICY),
        ("small--rspo-pas--k4--n16--s0", POLICY),
        ("fig_main.pdf", "reports/fig_main.pdf"),
        ("{folder}/reports/fig_main.pdf", "reports/fig_main.pdf"),
        ("cost.csv", "results/tiny/tables/cost.csv"),
        ("al", "all"),
        ("scale=paper", "--config scale=paper"),
    ],
)
def test_a_target_that_no_rule_makes_has_a_suggestion(
    project: Path, target: str, meant: str
) -> None:
    target = target.format(folder=project)
    done = snakemake(project, "-n", target)
    assert done.returncode == 1
    assert f"error: no rule makes {target}; did you mean {meant}?\n" in done.stdout
    assert "Exception" not in done.stdout


@pytest.mark.parametrize(
    ("target", "config", "meant"),
    [
        (CELL, "results=trial", f"trial/cells/{CELL}/policy"),
        ("fig_main.pdf", "results=trial scale=paper", "trial/reports/fig_main.pdf"),
        ("{folder}/reports/fig_main.pdf", "results=trial", "trial/reports/fig_main.pdf"),
        ("{folder}/trial/reports/fig_main.pdf", "results=trial", "trial/reports/fig_main.pdf"),
        (POLICY, "results=trial", f"trial/cells/{CELL}/policy"),
        (CELL, "scale=paper", f"{POLICY} with --config scale=tiny"),
        (POLICY, "scale=paper", f"{POLICY} with --config scale=tiny"),
        ("fig_quick.pdf", "scale=tiny", "reports/fig_quick.pdf with --config scale=quick"),
        (
            f"results/quick/cells/{CELL}/policy",
            "scale=tiny",
            f"results/quick/cells/{CELL}/policy with --config scale=quick",
        ),
        # The paper's scale has no such cell.
        (f"results/paper/cells/{CELL}/policy", "scale=tiny", POLICY),
        (
            f"old/cells/{CELL}/policy",
            "scale=tiny",
            f"old/cells/{CELL}/policy with --config results=old",
        ),
        (
            "{folder}/old/reports/fig_main.pdf",
            "scale=tiny",
            "old/reports/fig_main.pdf with --config results=old",
        ),
        (f"none/cells/{CELL}/policy", "scale=tiny", POLICY),
    ],
)
def test_a_suggestion_is_of_the_folder_and_the_scale_that_were_meant(
    project: Path, target: str, config: str, meant: str
) -> None:
    """The folder `old` has results of an earlier trial run."""
    (project / "old" / "cells").mkdir(parents=True, exist_ok=True)
    target = target.format(folder=project)
    done = snakemake(project, "-n", target, "--config", *config.split())
    assert done.returncode == 1
    assert f"error: no rule makes {target}; did you mean {meant}?\n" in done.stdout
    target, *words = meant.replace(" with ", " ").split()
    words = words or ["--config", *config.split()]
    assert snakemake(project, "-n", target, *words).returncode == 0


def test_a_target_that_is_like_none_has_snakemakes_own_error(project: Path) -> None:
    done = snakemake(project, "-n", "qqqq")
    assert done.returncode == 1
    assert "No rule to produce qqqq" in done.stdout


def test_every_suggestion_is_a_target(project: Path) -> None:
    """Snakemake plans them all at once."""
    targets = targets_by_name(Experiment.load("tiny", root=ROOT))
    files = [str(Path(target).relative_to(ROOT)) for target in targets.values()]
    done = snakemake(project, "-n", *dict.fromkeys(files))
    assert done.returncode == 0, done.stdout
