"""The registry: inputs, missing inputs, figures of a user's own grid, captions and settings."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import read_json_lines, write_json_lines
from rspo.figures import FIGURES, draw, figures_of, in_all, register, study, style
from rspo.figures import figure as figure_module
from rspo.figures.methods import methods_of
from rspo.pipeline.provenance import read_provenance
from tests.support import ROOT
from tests.support.planted import experiment_in, write_inputs
from tests.support.tasks import attest

RESULTS = ROOT / "docs" / "results"


@pytest.mark.parametrize("name", ["fig_main", "fig_intro"])
def test_provenance_names_inputs_and_the_columns_are_the_published_ones(
    tmp_path: Path, name: str
) -> None:
    experiment, figure = experiment_in(tmp_path), FIGURES[name]
    write_inputs(experiment, name)
    draw(experiment, name)
    step = figure.task(experiment)
    assert [path.parent for path in step.outputs] == [experiment.files.reports] * 3
    for path in step.outputs:
        provenance = read_provenance(path)
        assert list(provenance["inputs"]) == [str(item) for item in step.input_files]
    made, published = (path.read_text() for path in (step.outputs[2], RESULTS / f"{name}.csv"))
    assert made.partition("\n")[0] == published.partition("\n")[0]
    assert len(step.input_files) == (16 if name == "fig_main" else 0)


def test_the_page_about_files_has_the_columns_of_every_published_figure() -> None:
    table = (ROOT / "docs" / "files.md").read_text().partition("## reports/fig_*.csv")[2]
    described, name = dict[str, list[str]](), ""
    for figure, column in re.findall(r"^\| (?:(fig_\w+)[^|]*)?\| `(\w+)` \|", table, re.M):
        name = figure or name
        described.setdefault(name, []).append(column)
    files = [*RESULTS.glob("fig_*.csv")]
    assert described.pop("fig_STUDY") == study.COLUMNS
    assert described.keys() <= {file.stem for file in files}
    for file in files:
        columns = described.get(file.stem, described["fig_main"])
        assert file.read_text().partition("\n")[0].split(",") == columns, file


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "main"}, "'main': allowed: fig_ and letters"),
        ({"name": "fig_main"}, "'fig_main' exists already"),
        ({"grids": "main"}, "grids = 'main'; expected a tuple"),  # as of ("main")
    ],
)
def test_a_figure_of_ones_own_that_cannot_be_drawn_is_not_registered(
    change: dict[str, Any], message: str
) -> None:
    values: dict[str, Any] = {"name": "fig_mine"} | change
    mine = replace(FIGURES["fig_main"], **values)
    with pytest.raises(ValueError, match=re.escape(message)):
        register(mine)


def test_a_log_without_a_number_is_refused(tmp_path: Path) -> None:
    experiment = experiment_in(tmp_path)
    write_inputs(experiment, "fig_entropy")
    path = experiment.files.training_log("small--rspo-pass--k8--n16--s0")
    write_json_lines(path, [*read_json_lines(path)[:-1], {"step": 150}])
    attest(FIGURES["fig_entropy"].task(experiment).inputs())
    with pytest.raises(InputError, match=f"{path}, line 150: entropy is None"):
        draw(experiment, "fig_entropy")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": lambda: None}, "fig_intro: table returned None, expected a DataFrame"),
        ({"draw": lambda table: None}, "fig_intro: draw returned None, expected a Figure"),
    ],
)
def test_a_function_of_ones_own_without_return_is_one_line(
    tmp_path: Path, change: Any, message: str
) -> None:
    experiment = experiment_in(tmp_path)
    with pytest.raises(InputError, match=re.escape(message)):
        replace(FIGURES["fig_intro"], **change).write(experiment)
    assert not experiment.files.reports.exists()


def test_grid_that_the_config_lacks(experiments: dict[str, Experiment]) -> None:
    tiny, paper = experiments["tiny"], experiments["paper"]
    own = [*FIGURES, "fig_without_k"]  # an entry of the grid that is not the paper's
    assert [*figures_of(tiny)] == own + [f"fig_{name}" for name in tiny.config.studies]
    assert in_all(tiny) == own
    assert [*figures_of(paper)] == [*FIGURES]
    only_main = {"grid": {"main": tiny.config.grid["main"]}, "studies": {}}
    smaller = replace(tiny, config=tiny.config.model_copy(update=only_main))
    assert "fig_main" in figures_of(smaller)
    assert "fig_contamination_free" not in figures_of(smaller)
    with pytest.raises(InputError, match="draws contamination_free; the config lacks one"):
        draw(smaller, "fig_contamination_free")


# What a user may add to the grid, under a name that nothing else knows.
MINE = {
    "lr-sweep": {
        "suite": "standard",
        "cells": [
            {"model": "small", "objective": f"rspo_{metric}_at_k", "k": [2, 4], "n": 8}
            for metric in ("pass", "max")
        ],
    },
    "sizes": {
        "suite": "contamination_free",
        "cells": [
            {"model": model, "objective": objective, "n": 16}
            for model in ("small", "medium")
            for objective in ("policy_gradient", "grpo")
        ],
    },
}


def test_a_comparison_of_ones_own_gets_a_figure_of_its_own(tmp_path: Path) -> None:
    experiment = experiment_in(tmp_path, grid=MINE)
    names = ["fig_lr-sweep", "fig_sizes"]
    assert in_all(experiment) == [*FIGURES, "fig_without_k", *names]
    for name in names:
        write_inputs(experiment, name)
        draw(experiment, name)
        figure = figures_of(experiment)[name]
        rows = pd.read_csv(figure.task(experiment).outputs[2])
        methods = methods_of(experiment, figure.policies(experiment))
        assert [*rows["method"].unique()] == [m.label for m in methods]
        looks = {(style.look(m).marker, str(style.look(m).line)) for m in methods}
        assert len(looks) == len(methods)
        assert sorted(p for m in methods for p in m.policies) == sorted(figure.policies(experiment))
        with style.applied():
            picture = figure.draw(figure.table(experiment, figure), experiment, figure)
        has_several_models = name == "fig_sizes"
        labels = [axes.get_ylabel() for axes in picture.axes]
        assert any("of the same model" in label for label in labels) == has_several_models


def test_a_comparison_that_would_take_another_figures_name(tmp_path: Path) -> None:
    experiment = experiment_in(tmp_path, grid={"intro": MINE["sizes"]})
    with pytest.raises(InputError, match=r"config/tiny.yaml: grid.intro would be drawn as fig_int"):
        figures_of(experiment)


def test_importing_the_package_imports_neither_matplotlib_nor_seaborn() -> None:
    slow = "{'matplotlib', 'scipy', 'seaborn'}"
    script = f"import sys, rspo.figures; print(sorted({slow} & {{*sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


def test_a_figure_is_out_of_date_when_the_code_of_figures_changes(
    experiments: dict[str, Experiment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(figure_module.FOLDER, tmp_path / "figures")
    monkeypatch.setattr(figure_module, "FOLDER", folder)

    def settings() -> dict[str, Any]:
        figure_module._digest.cache_clear()
        return FIGURES["fig_main"].settings(experiments["tiny"])

    before = settings()
    assert settings() == before
    assert before["caption"] == FIGURES["fig_main"].caption
    (folder / "style.py").write_text((folder / "style.py").read_text() + "# another line\n")
    assert settings() != before
