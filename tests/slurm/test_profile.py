"""Resources of slurm/config.yaml have the values that Snakemake gives to its SLURM plugin."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from snakemake.cli import parse_args

from rspo.core.errors import InputError
from rspo.slurm.profile import read_profile
from tests.support import slurm_world


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = slurm_world.make_project(tmp_path / "project")
    monkeypatch.chdir(folder)
    return folder


def edit_training(project: Path, changes: Mapping[str, Any]) -> None:
    slurm_world.edit_profile(
        project, {f"set-resources.train.{name}": value for name, value in changes.items()}
    )


def snakemake_value(name: str) -> Any:
    """The value of a resource of the rule `train` in `snakemake --profile slurm`."""
    _, options = parse_args(["--profile", "slurm"])
    resources = options.default_resources.copy()
    resources.update(options.set_resources["train"])
    job = {"input": [], "attempt": 1, "threads": 1, "rulename": "train", "async_run": None}
    return resources[name].evaluate(None, **job).value


@pytest.mark.parametrize(
    ("written", "name", "option"),
    [
        ({"runtime": 90}, "runtime", "--time=90"),
        ({"runtime": "4h"}, "runtime", "--time=240"),
        ({"runtime": "'4h'"}, "runtime", "--time=240"),
        ({"runtime": "2 * 60"}, "runtime", "--time=120"),
        ({"mem_mb": "16 * 1000"}, "mem_mb", "--mem=16000"),
        ({"mem_mb": None, "mem": "64GB"}, "mem_mb", "--mem=64000"),
        ({"mem_mb": None, "mem_mib": 1000}, "mem_mb", "--mem=1048"),
        ({"slurm_account": "0123"}, "slurm_account", "--account=0123"),
        ({"slurm_account": "$GROUP"}, "slurm_account", "--account=physics"),
        ({"constraint": "a100|h100"}, "constraint", "--constraint=a100|h100"),
        ({"constraint": "input=fast"}, "constraint", "--constraint=input=fast"),  # no expression
        ({"slurm_extra": "'--comment=short'"}, "slurm_extra", "--comment=short"),
        ({"slurm_extra": "--comment=short"}, "slurm_extra", "--comment=short"),
    ],
)
def test_a_value_becomes_the_option_that_snakemake_passes_to_sbatch(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: dict[str, Any],
    name: str,
    option: str,
) -> None:
    monkeypatch.setenv("GROUP", "physics")
    edit_training(project, written)
    _, requests = read_profile()
    assert option in requests["train"].options
    assert str(snakemake_value(name)) in (option, option.split("=", 1)[1])


def test_every_value_of_the_shipped_profile_is_read_as_snakemake_reads_it(project: Path) -> None:
    request = read_profile()[1]["train"]
    assert request.minutes == snakemake_value("runtime")
    assert request.partition == snakemake_value("slurm_partition")
    assert " ".join(request.extra) == snakemake_value("slurm_extra")
    for option, name in (("mem", "mem_mb"), ("gres", "gres"), ("cpus-per-task", "cpus_per_task")):
        assert f"--{option}={snakemake_value(name)}" in request.options


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"mem_mb": "64GB"}, r"train\.mem_mb = '64GB': .*Must return an int or float"),
        ({"runtime": "long"}, r"train\.runtime = 'long'; allowed: minutes, or such as 4h$"),
    ],
)
def test_a_value_that_snakemake_refuses_is_named(
    project: Path, written: dict[str, Any], message: str
) -> None:
    edit_training(project, written)
    with pytest.raises(InputError, match=message):
        read_profile()


def test_gpus_may_be_an_option_of_sbatch(project: Path) -> None:
    edit_training(project, {"gres": None, "slurm_extra": "'--gpus-per-node=h800:8'"})
    assert read_profile()[1]["train"].gpus == 8


def test_each_request_knows_its_rule(project: Path) -> None:
    assert {rule: request.rule for rule, request in read_profile()[1].items()} == {
        rule: rule for rule in ("default-resources", "sample", "score", "train")
    }
