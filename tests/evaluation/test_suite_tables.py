"""`rspo sample` and `rspo score` make only the tables of a suite that are missing or outdated."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.locks import exclusive_lock
from rspo.core.provenance import provenance_path
from rspo.core.tables import PROBLEMS, read_table, write_table
from rspo.datasets.prepare import prepare
from rspo.evaluation.sample import sample_suite
from rspo.evaluation.score import score
from rspo.policies.torch_sampler import TorchSampler
from tests.support import tiny_world

POLICY, SUITE = "small--base", "contamination_free"
BENCHMARKS = ["linear_larger", "divide_larger"]
LONG_AGO = 1_000_000_000  # seconds


def load(root: Path, samples: int = 8) -> Experiment:
    evaluation = tiny_world.OVERRIDES["evaluation"] | {"samples": samples}
    return tiny_world.load(root, evaluation=evaluation)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base policy and the problems of two benchmarks."""
    root = tmp_path_factory.mktemp("world")
    experiment = tiny_world.load_prepared(root)
    for benchmark in BENCHMARKS:
        prepare(experiment, benchmark)
    return root


@pytest.fixture
def experiment(world: Path) -> Iterator[Experiment]:
    """No samples and no scores."""
    result = load(world)
    yield result
    for kind in ("samples", "scores"):
        for path in (result.folder(POLICY) / kind).rglob("*.*"):
            path.unlink()


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Benchmark and block of every batch that is sampled."""
    result = []
    draw = TorchSampler.draw

    def record(sampler, questions, batch, block):  # type: ignore[no-untyped-def]
        result.append((block.stream[1], block.number))
        return draw(sampler, questions, batch, block)

    monkeypatch.setattr(TorchSampler, "draw", record)
    return result


def tables(experiment: Experiment) -> dict[tuple[str, int], Path]:
    names = experiment.tables_of(POLICY, SUITE)
    return {name: experiment.samples(POLICY, *name) for name in names}


def delete(path: Path) -> None:
    """Delete a table and the hard link that it is restored from."""
    path.unlink()
    path.with_name(f".{path.name}.complete").unlink()


def test_a_lost_table_is_sampled_alone_and_is_the_same(
    experiment: Experiment, drawn: list[tuple[str, int]]
) -> None:
    sample_suite(experiment, POLICY, SUITE)
    assert drawn == [(name, 0) for name in BENCHMARKS]
    before = {path: path.read_bytes() for path in tables(experiment).values()}
    lost, kept = before
    delete(lost)
    os.utime(kept, (LONG_AGO, LONG_AGO))
    drawn.clear()
    sample_suite(experiment, POLICY, SUITE)
    assert drawn == [(BENCHMARKS[0], 0)]
    assert {path: path.read_bytes() for path in before} == before
    assert kept.stat().st_mtime > LONG_AGO  # so that Snakemake does not rerun the job


def test_more_samples_add_blocks(
    world: Path, experiment: Experiment, drawn: list[tuple[str, int]]
) -> None:
    sample_suite(experiment, POLICY, SUITE)
    drawn.clear()
    sample_suite(load(world, samples=16), POLICY, SUITE)
    assert drawn == [(name, 1) for name in BENCHMARKS]


def test_changed_problems_are_sampled_and_scored_again(
    experiment: Experiment, drawn: list[tuple[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    sample_suite(experiment, POLICY, SUITE)
    score(experiment, POLICY, SUITE)
    path = experiment.problems(BENCHMARKS[1])
    rows = read_table(path, PROBLEMS)
    write_table(path, PROBLEMS, rows[:-1])
    drawn.clear()
    capsys.readouterr()
    sample_suite(experiment, POLICY, SUITE)
    score(experiment, POLICY, SUITE)
    write_table(path, PROBLEMS, rows)
    assert drawn == [(BENCHMARKS[1], 0)]
    assert capsys.readouterr().out.splitlines() == [
        f"{POLICY} on {SUITE}: {done} 1 of 2 tables, others up to date"
        for done in ("sampled", "scored")
    ]


@pytest.mark.parametrize("damage", ["table", "provenance"])
def test_a_damaged_table_is_made_again(
    experiment: Experiment, drawn: list[tuple[str, int]], damage: str
) -> None:
    sample_suite(experiment, POLICY, SUITE)
    path = experiment.samples(POLICY, BENCHMARKS[0], 0)
    whole = path.read_bytes()
    broken = path if damage == "table" else provenance_path(path)
    broken.write_bytes(broken.read_bytes()[:-9])
    drawn.clear()
    sample_suite(experiment, POLICY, SUITE)
    assert drawn == [(BENCHMARKS[0], 0)]
    assert path.read_bytes() == whole


def test_tables_that_snakemake_deletes_are_restored(
    experiment: Experiment, drawn: list[tuple[str, int]]
) -> None:
    """Snakemake deletes all outputs of a job before it starts, and again if it fails."""
    sample_suite(experiment, POLICY, SUITE)
    before = {path: path.read_bytes() for path in tables(experiment).values()}
    for path in before:
        path.unlink()
    drawn.clear()
    sample_suite(experiment, POLICY, SUITE)
    assert drawn == []
    assert {path: path.read_bytes() for path in before} == before


def test_a_job_that_fails_at_its_second_table_keeps_the_first(
    experiment: Experiment, drawn: list[tuple[str, int]]
) -> None:
    problems = experiment.problems(BENCHMARKS[1])
    whole = problems.read_bytes()
    problems.write_bytes(whole[:-100])
    try:
        with pytest.raises(InputError, match="not a complete Parquet file"):
            sample_suite(experiment, POLICY, SUITE)
    finally:
        problems.write_bytes(whole)
    experiment.samples(POLICY, BENCHMARKS[0], 0).unlink()  # by Snakemake
    drawn.clear()
    sample_suite(experiment, POLICY, SUITE)
    assert drawn == [(BENCHMARKS[1], 0)]


def test_outdated_tables_are_not_restored(
    world: Path, experiment: Experiment, drawn: list[tuple[str, int]]
) -> None:
    sample_suite(experiment, POLICY, SUITE)
    for path in tables(experiment).values():
        path.unlink()
    drawn.clear()
    sampling = {"temperature": 0.5}
    sample_suite(tiny_world.load(world, sampling=sampling), POLICY, SUITE)
    assert drawn == [(name, 0) for name in BENCHMARKS]


def test_two_processes_cannot_make_the_tables_of_a_suite(experiment: Experiment) -> None:
    folder = experiment.samples(POLICY, BENCHMARKS[1], 0).parent
    with exclusive_lock(folder), pytest.raises(InputError, match="is running here"):
        sample_suite(experiment, POLICY, SUITE)
