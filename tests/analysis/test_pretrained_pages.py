"""The pages of the scale of a published model, from tables that are made up."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from rspo.analysis import pages, studies
from rspo.analysis.results import write_comparisons
from rspo.analysis.study_columns import commits, origins
from rspo.analysis.write import study_contents
from rspo.config.experiment import Experiment
from rspo.policies.device import CPU_FLOAT32, Place
from tests.support import ROOT, planted

SEEDS = 3
RATES = {"default": 1e-5, "lr-third": 3.3e-6, "lr-triple": 3e-5}


def page(
    experiment: Experiment,
    name: str,
    root: Path,
    where: Mapping[str, list[str]] | None = None,
    **columns: Any,
) -> str:
    """The page of a study whose methods have the given columns, each a value by variant.

    Args:
        where: the cells that were trained at each place.
    """
    lines = studies.lines_of(experiment, name)
    rows = planted.made_up(studies.planned(experiment, name, lines))
    for row in rows:
        row["seeds"] = SEEDS
    table = write_comparisons(root / "table.csv", rows)
    methods = []
    for line in lines:
        row: dict[str, Any] = {"method": line.label, "variant": line.variant}
        row["objective"] = line.objective
        row |= {column: by_variant[line.variant] for column, by_variant in columns.items()}
        methods.append(row)
    contents = study_contents(experiment, name, table, pd.DataFrame(methods))
    template = ROOT / "docs" / "studies" / f"{name}.md.jinja"
    return pages.render(template, contents | {"origins": where or {}, "bases": []})


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return planted.experiment_in(tmp_path, "pretrained")


def test_the_main_page_has_the_rates_that_its_methods_have(
    experiment: Experiment, tmp_path: Path
) -> None:
    text = page(experiment, "pretrained", tmp_path, learning_rate=RATES)
    rates = f"3.3e{pages.MINUS}06 for GRPO, MaxPO k=1, Baseline k=4; 1e{pages.MINUS}05 for GRPO, "
    assert f"Learning rates: {rates}" in text
    assert "3 training seeds, each from a supervised start of its own: intervals and p-" in text
    assert "base models" not in text
    assert "RSPO's Pass@k is by the estimates above that of GRPO in " in text
    for k in (2, 4, 8):
        assert text.count(f" at Pass@{k} (") == (3 if k == 4 else 2)  # 4 also of MaxRL
    after = text.partition("Methods that are significantly above the policy after the start: ")[2]
    for k in (1, 4, 16):
        assert re.search(rf"at Pass@{k}, (none|\d) of 8", after)
    assert "that of GRPO, MaxPO k=1, Baseline k=4, MaxRL is the lowest or the highest" in text


def test_the_page_of_the_grid_has_the_rates_that_validation_chose(
    experiment: Experiment, tmp_path: Path
) -> None:
    text = page(
        experiment,
        "pretrained_rates",
        tmp_path,
        learning_rate=RATES,
        validation=dict.fromkeys(RATES, 0.25),
        chosen={"default": "no", "lr-third": "no", "lr-triple": "yes"},
        at_edge={"default": "no", "lr-third": "yes", "lr-triple": "yes"},
    )
    chosen = "Of 3.3e-06, 1e-05, 3e-05, validation chooses at Pass@4 3e-05 for GRPO, "
    assert chosen.replace("e-", f"e{pages.MINUS}") in text
    assert "the lowest or the highest rate of the grid is chosen: " in text
    # The main comparison names its rates itself, so this page says nothing about them.
    assert "have these rates" not in text


def test_the_page_says_where_all_trainings_ran(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = ["smollm2-135m--grpo--k1--n16--s0", "smollm2-135m--rspo-pass--k4--n16--s0"]
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    notes = [Place(torch.device("cuda"), torch.bfloat16).note, CPU_FLOAT32.note]
    provenance = {
        experiment.files.policy(cell): {
            "processor": "CPU 1",
            "packages": {"torch": "2.9"},
            "notes": note,
        }
        for cell, note in zip(cells, notes, strict=True)
    }
    monkeypatch.setattr("rspo.analysis.study_columns.read_provenance", provenance.get)
    gpu = "NVIDIA H200 in bfloat16, PyTorch 2.9"
    assert origins(experiment, cells) == {
        gpu: cells[:1],
        "CPU 1 in float32, PyTorch 2.9": cells[1:],
    }
    text = page(experiment, "pretrained", tmp_path, learning_rate=RATES)
    assert "All trainings ran on" not in text
    ran = page(experiment, "pretrained", tmp_path, where={gpu: cells}, learning_rate=RATES)
    assert f"All trainings ran on: {gpu} (" in ran


def test_the_commits_of_trainings_are_those_of_policies_or_else_of_their_logs(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code with uncommitted changes is not presented as a commit."""
    cells = ["a--s0", "a--s1", "b--s0", "c--s0", "d--s0"]
    provenance = {
        experiment.files.policy(cells[0]): {"git_commit": "0123456789abcdef"},
        experiment.files.training_log(cells[0]): {"git_commit": "f" * 40},
        experiment.files.policy(cells[1]): {"git_commit": "0123456789abcdef+changes"},
        experiment.files.training_log(cells[2]): {"git_commit": "fedcba9876543210"},
        experiment.files.policy(cells[3]): {"git_commit": ""},
    }

    def read(path: Path) -> dict[str, str]:
        return provenance.get(path, {})

    monkeypatch.setattr("rspo.analysis.study_columns.read_provenance", read)
    first = "01234567"
    expected = [first, f"{first} with uncommitted changes", "fedcba98", "unknown"]
    assert commits(experiment, cells) == expected
    assert commits(experiment, cells[4:]) == ["unknown"]  # nothing is known of it
