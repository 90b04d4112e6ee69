"""The table of the time that every policy used, from the provenance beside its files."""

from pathlib import Path

import pandas as pd
import pytest

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import write_text
from rspo.core.tables import read_csv
from rspo.pipeline import tasks
from rspo.pipeline.cost import costs, write_cost_table
from rspo.pipeline.provenance import provenance_path, read_provenance
from rspo.pipeline.run import record
from rspo.pipeline.task import Done, Task
from rspo.pipeline.usage import Usage
from tests.support import tiny_world

CELL = "small--grpo--k1--n16--s0"
BASE = "small--base"


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """Files of a base policy and a cell, each made by processes of 1, 2 and 4 seconds."""
    experiment = tiny_world.load(tmp_path)
    files = experiment.files
    earlier = [Usage("", "node", 1, 1.0, 2.0, 4.0)]
    made = [
        files.policy(BASE),
        files.policy(CELL),
        files.training_log(CELL),  # made by the processes of the policy
        files.samples(CELL, "standard", 0),
        files.samples(CELL, "standard", 1),
        files.scores(CELL, "standard", 0),
        files.curves(CELL, "standard"),
    ]
    for path in made:
        write_text(path, "result")
        record(Task((path,), {}), Done(earlier=earlier))
    return experiment


def test_a_policy_has_a_row_for_each_task_with_the_time_of_all_its_processes(
    experiment: Experiment,
) -> None:
    files = experiment.files
    table = costs(experiment)
    assert list(table.columns) == ["policy", "step", "wall_seconds", "cpu_seconds", "gpu_seconds"]
    assert list(zip(table["policy"], table["step"], strict=True)) == [
        (BASE, "pretrain"),
        (CELL, "train"),
        (CELL, "sample"),
        (CELL, "score"),
        (CELL, "curves"),
    ]
    assert table["gpu_seconds"].tolist() == [4, 4, 8, 4, 4]
    blocks = [read_provenance(files.samples(CELL, "standard", block)) for block in (0, 1)]
    for name in ("wall_seconds", "cpu_seconds"):
        expected = sum(note[name] for note in blocks)
        assert table[name][2] == pytest.approx(expected, abs=0.01)
        assert (table[name] * 100 % 1).map(lambda rest: min(rest, 1 - rest)).max() < 1e-6


def test_a_training_of_which_only_the_log_is_kept_counts(experiment: Experiment) -> None:
    """As in results that were restored from evidence."""
    before = costs(experiment)
    provenance_path(experiment.files.policy(CELL)).unlink()
    pd.testing.assert_frame_equal(costs(experiment)[:1], before[:1])
    (after,) = costs(experiment).query("step == 'train'").to_dict("records")
    assert after["policy"] == CELL
    assert after["gpu_seconds"] == 4


def test_an_experiment_without_results_has_an_empty_table(tmp_path: Path) -> None:
    assert costs(tiny_world.load(tmp_path)).empty


def test_the_table_is_written_with_provenance(experiment: Experiment) -> None:
    path = experiment.files.table("cost")
    write_cost_table(experiment)
    expected = costs(experiment)
    written = read_csv(path)
    assert list(written["step"]) == list(expected["step"])
    assert pd.to_numeric(written["cpu_seconds"]).tolist() == expected["cpu_seconds"].tolist()
    assert read_provenance(path)["settings"] == tasks.cost(experiment).settings


def test_settings_of_the_command_line_need_force(experiment: Experiment) -> None:
    fewer = experiment.config.model_copy(update={"seeds": 2})
    changed = Experiment("tiny", fewer, experiment.files, as_configured=experiment)
    with pytest.raises(InputError, match=r"cost\.csv would have other settings than the config"):
        write_cost_table(changed)
    write_cost_table(changed, force=True)
    assert experiment.files.table("cost").is_file()
