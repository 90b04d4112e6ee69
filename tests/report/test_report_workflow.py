"""Snakemake remakes a lost file and everything that depends on it; the report stays the same."""

import shutil
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.small_paper import without_hosts_and_times
from tests.support.snakemake_project import SMALL_WORLD, jobs, snakemake

CELL = "results/tiny/cells/small--rspo-pass--k2--n8--s0"


def make_all(folder: Path) -> None:
    done = snakemake(folder, "all", "--config", *SMALL_WORLD)
    assert done.returncode == 0, done.stderr


def planned(folder: Path) -> dict[str, int]:
    """Number of jobs of each rule that `snakemake all` would run."""
    return jobs(snakemake(folder, "-n", "all", "--config", *SMALL_WORLD))


def page(folder: Path) -> str:
    return without_hosts_and_times((folder / "reports" / "report.html").read_text())


@pytest.fixture(scope="module")
def project(small_results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a small experiment; Snakemake made the tables and the report."""
    root = tmp_path_factory.mktemp("report") / "project"
    shutil.copytree(small_results, root)
    for name in ("workflow", "profiles", "envs"):
        shutil.copytree(ROOT / name, root / name)
    shutil.copy(ROOT / "Snakefile", root)
    # Snakemake makes these again with its rules.
    shutil.rmtree(root / "results" / "tiny" / "tables")
    shutil.rmtree(root / "reports", ignore_errors=True)
    make_all(root)
    return root


@pytest.mark.long  # two minutes on a quiet machine
@pytest.mark.parametrize("lost", ["samples/standard/0.parquet", "scores/standard/0.parquet"])
def test_a_lost_file_is_made_again_with_what_depends_on_it_and_gives_the_same_report(
    project: Path, lost: str
) -> None:
    assert planned(project) == {}
    before = page(project)
    (project / CELL / lost).unlink()
    plan = planned(project)
    assert plan.pop("sample", 0) == ("samples" in lost)
    # One of five policies; fig_main reads its curves, and fig_difference the claims.
    assert [plan.pop(rule) for rule in ("score", "curves", "figure")] == [1, 1, 2]
    made_from_them = {"tables", "answers", "claims", "cost", "report"}
    assert set(plan) == made_from_them | {"all", "total"}
    make_all(project)
    assert page(project) == before
    assert planned(project) == {}


@pytest.mark.long
def test_every_lost_file_is_planned_again(project: Path) -> None:
    """One file or folder of each kind that the rules declare."""
    policy = project / CELL
    tiny = policy.parent.parent
    kinds = [
        *(tiny / "problems" / name for name in ("train.parquet", "linear.parquet")),
        *(policy / name for name in ("policy", "training.jsonl", "curves/standard.parquet")),
        *(policy / kind / "standard" / "0.parquet" for kind in ("samples", "scores")),
        next(tiny.glob("cells/*/gradients.parquet")),
        *(tiny / "tables" / f"{name}.csv" for name in ("curves", "cost", "answers")),
        *(project / "reports" / f"fig_main.{kind}" for kind in ("pdf", "png", "csv")),
        *(project / "reports" / f"claims.{kind}" for kind in ("csv", "md")),
        *(project / "reports" / name for name in ("claim_comparisons.csv", "report.html")),
    ]
    for path in kinds:
        aside = path.rename(path.with_name("aside"))
        assert planned(project), path
        aside.rename(path)
    assert planned(project) == {}
