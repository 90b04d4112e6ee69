"""`rspo sample` and `rspo score` write one table for each policy, suite and block."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.locks import exclusive_lock
from rspo.core.tables import PROBLEMS, SAMPLES, SCORES, read_table, write_table
from rspo.datasets.prepare import prepare
from rspo.evaluation.journal import journal_of
from rspo.evaluation.read_outcomes import scored_samples
from rspo.evaluation.sample import sample_suite
from rspo.evaluation.score import score
from rspo.pipeline import tasks
from rspo.pipeline.provenance import read_provenance
from rspo.pipeline.run import record
from rspo.policies import sampler
from rspo.policies.device import Place
from rspo.policies.sampler import TorchSampler
from tests.support import tiny_world

POLICY, SUITE = "small--base", "contamination_free"
BENCHMARKS = ["linear_larger", "divide_larger"]


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
        for path in (result.files.folder(POLICY) / kind).rglob("*.*"):
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


def kill_at_the_second_benchmark(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample until the first benchmark is in the journal."""
    draw = TorchSampler.draw

    def until_the_second(sampler, questions, batch, block):  # type: ignore[no-untyped-def]
        if block.stream[1] == BENCHMARKS[1]:
            raise KeyboardInterrupt
        return draw(sampler, questions, batch, block)

    with monkeypatch.context() as killed:
        killed.setattr(TorchSampler, "draw", until_the_second)
        with pytest.raises(KeyboardInterrupt):
            sample_suite(experiment, POLICY, SUITE)


def test_the_provenance_has_the_device_and_the_data_type(experiment: Experiment) -> None:
    sample_suite(experiment, POLICY, SUITE)
    notes = read_provenance(experiment.files.samples(POLICY, SUITE, 0))["notes"]
    assert (notes["device"], notes["dtype"]) == ("cpu", "float32")


def test_a_table_has_the_samples_of_every_problem_of_the_suite(
    experiment: Experiment, drawn: list[tuple[str, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    sample_suite(experiment, POLICY, SUITE)
    path = experiment.files.samples(POLICY, SUITE, 0)
    rows = read_table(path, SAMPLES)
    assert [(row["benchmark"], row["problem_id"], row["sample_index"]) for row in rows] == [
        (benchmark, problem["id"], index)
        for benchmark in BENCHMARKS
        for problem in read_table(experiment.files.problems(benchmark), PROBLEMS)
        for index in range(8)
    ]
    drawn.clear()
    sample_suite(experiment, POLICY, SUITE)
    assert capsys.readouterr().out == f"{path} is up to date\n"
    assert drawn == []


def test_a_killed_job_resumes_from_its_journal_to_the_same_file(
    experiment: Experiment, drawn: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_suite(experiment, POLICY, SUITE)
    path = experiment.files.samples(POLICY, SUITE, 0)
    whole = path.read_bytes()
    path.unlink()  # as Snakemake does before a job
    kill_at_the_second_benchmark(experiment, monkeypatch)
    assert not path.exists()
    assert journal_of(path).exists()
    drawn.clear()
    sample_suite(experiment, POLICY, SUITE)
    assert drawn == [(BENCHMARKS[1], 0)]
    assert path.read_bytes() == whole
    assert not journal_of(path).exists()


def test_samples_are_read_with_their_scores_and_problems(experiment: Experiment) -> None:
    sample_suite(experiment, POLICY, SUITE)
    score(experiment, POLICY, SUITE)
    frame = scored_samples(experiment, POLICY, BENCHMARKS[1])
    rows = [
        {key: row[key] for key in ("problem_id", "sample_index", "text")}
        for row in read_table(experiment.files.samples(POLICY, SUITE, 0), SAMPLES)
        if row["benchmark"] == BENCHMARKS[1]
    ]
    assert frame[["problem_id", "sample_index", "text"]].to_dict("records") == rows
    problems = read_table(experiment.files.problems(BENCHMARKS[1]), PROBLEMS)
    places = {problem["id"]: problem["row"] for problem in problems}
    assert list(frame["row"]) == [places[row["problem_id"]] for row in rows]
    assert set(frame["correct"]) <= {True, False}


def test_a_journal_of_another_data_type_is_not_continued(
    experiment: Experiment, drawn: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_at_the_second_benchmark(experiment, monkeypatch)
    drawn.clear()
    other = Place(torch.device("cpu"), torch.bfloat16)
    monkeypatch.setattr(sampler, "place_for", lambda tokenizer, settings: other)
    sample_suite(experiment, POLICY, SUITE)
    assert drawn == [(benchmark, 0) for benchmark in BENCHMARKS]


def test_more_samples_add_a_block_and_keep_the_old_file(
    world: Path, experiment: Experiment, drawn: list[tuple[str, int]]
) -> None:
    sample_suite(experiment, POLICY, SUITE)
    old = experiment.files.samples(POLICY, SUITE, 0)
    before = old.read_bytes(), old.stat().st_mtime_ns
    drawn.clear()
    more = load(world, samples=16)
    for block in more.blocks():
        sample_suite(more, POLICY, SUITE, block)
    assert drawn == [(name, 1) for name in BENCHMARKS]
    assert (old.read_bytes(), old.stat().st_mtime_ns) == before
    added = read_table(more.files.samples(POLICY, SUITE, 1), SAMPLES)
    assert {row["sample_index"] for row in added} == {*range(8, 16)}


def test_samples_and_scores_of_changed_problems_are_refused_as_another_version(
    experiment: Experiment,
) -> None:
    sample_suite(experiment, POLICY, SUITE)
    score(experiment, POLICY, SUITE)
    path = experiment.files.problems(BENCHMARKS[1])
    rows = read_table(path, PROBLEMS)
    samples = experiment.files.samples(POLICY, SUITE, 0)
    message = rf"{samples} was made from another version of {path}"
    try:
        write_table(path, PROBLEMS, rows[:-1])
        record(tasks.prepare(experiment, BENCHMARKS[1]))
        with pytest.raises(InputError, match=f"{message}: .*--force replaces it"):
            sample_suite(experiment, POLICY, SUITE)
        again = re.escape(f"`{experiment.command('sample', POLICY, SUITE, '0')} --force`")
        with pytest.raises(InputError, match=f"{message}; {again} makes it again"):
            score(experiment, POLICY, SUITE)
        sample_suite(experiment, POLICY, SUITE, force=True)
        score(experiment, POLICY, SUITE, force=True)
        assert len(read_table(experiment.files.scores(POLICY, SUITE, 0), SCORES)) == 8 * (6 + 5)
    finally:
        write_table(path, PROBLEMS, rows)
        record(tasks.prepare(experiment, BENCHMARKS[1]))


def test_two_processes_make_two_blocks_but_not_the_same_table(
    experiment: Experiment, world: Path
) -> None:
    """The first block is being made: another process has its lock."""
    larger = load(world, samples=16)
    first = tasks.sample(larger, POLICY, SUITE, 0)
    assert first.lock
    with exclusive_lock(first.lock.parent, first.lock.name):
        sample_suite(larger, POLICY, SUITE, 1)
        with pytest.raises(InputError, match="is running here"):
            sample_suite(larger, POLICY, SUITE, 0)
