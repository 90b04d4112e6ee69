"""Experiments with inputs of figures, and the table and picture of each figure, made once."""

from collections.abc import Callable
from functools import cache

import pandas as pd
import pytest
from matplotlib.figure import Figure as Picture

from rspo.config.experiment import Experiment
from rspo.figures import figures_of, style
from tests.support.planted import PAPER, experiment_in, write_inputs

Experiments = dict[str, Experiment]
Drawn = Callable[[str, str], tuple[pd.DataFrame, Picture]]


@pytest.fixture(scope="session")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> Experiments:
    """tiny with one seed; paper, with long names, two benchmarks in a suite, and two seeds."""
    tiny = experiment_in(tmp_path_factory.mktemp("tiny"))
    paper = experiment_in(tmp_path_factory.mktemp("paper"), "paper", seeds=2)
    write_inputs(tiny)
    write_inputs(paper, *PAPER)
    return {"tiny": tiny, "paper": paper}


@pytest.fixture(scope="session")
def drawn(experiments: Experiments) -> Drawn:
    """Returns the table and the picture of a figure, laid out but not rendered."""

    @cache
    def draw(scale: str, name: str) -> tuple[pd.DataFrame, Picture]:
        figure = figures_of(experiments[scale])[name]
        context = (experiments[scale], figure) if figure.of_results else ()
        table = figure.table(*context)
        with style.applied():
            picture = figure.draw(table, *context)
            picture.draw_without_rendering()
        return table, picture

    return draw
