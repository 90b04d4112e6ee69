"""The pictures: each one is drawn, tells what it shows, and can be read, also in grey."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure as Picture
from matplotlib.lines import Line2D
from matplotlib.text import Text
from PIL import Image

from rspo.config.experiment import Experiment
from rspo.figures import FIGURES, draw, style
from rspo.figures.figure import methods_of
from tests.support import ROOT
from tests.support.planted import PAPER, experiment_in, write_inputs

Drawn = Callable[[str, str], tuple[pd.DataFrame, Picture]]
ALL = pytest.mark.parametrize(
    ("scale", "name"), [*(("tiny", name) for name in FIGURES), *(("paper", name) for name in PAPER)]
)
CURVES = [name for name, figure in FIGURES.items() if figure.reads("curves")]


def visible_texts(picture: Picture) -> list[Text]:
    """Every text that is drawn; this excludes ticks outside the axes."""
    hidden: set[Text] = set()
    for axes in picture.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = axis.get_major_ticks()
            hidden.update(tick.label1 for tick in ticks if not low <= tick.get_loc() <= high)
    texts = [text for text in picture.findobj(Text) if isinstance(text, Text)]
    return [t for t in texts if t not in hidden and t.get_visible() and t.get_text().strip()]


@ALL
def test_texts_are_legible_inside_the_picture_and_apart(
    drawn: Drawn, scale: str, name: str
) -> None:
    """At least 7 pt at the printed width, inside the picture, and no text on another one."""
    _, picture = drawn(scale, name)
    assert picture.get_figwidth() in (style.COLUMN_WIDTH, style.TEXT_WIDTH)
    page, texts = picture.bbox, visible_texts(picture)
    boxes = [text.get_window_extent() for text in texts]
    legends = [legend.get_window_extent() for legend in picture.legends]
    for box in [*boxes, *legends]:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= page.x1
        assert box.y1 <= page.y1
    for text in texts:
        smallest = 0.7 if "^" in text.get_text() else 1
        assert float(text.get_fontsize()) * smallest >= 7 - 1e-9, text.get_text()
    for (text, box), (other, other_box) in combinations(zip(texts, boxes, strict=True), 2):
        apart = not box.padded(-0.5).overlaps(other_box.padded(-0.5))
        assert apart, (text.get_text(), other.get_text())


def points(x: Iterable[Any], y: Iterable[Any]) -> tuple[tuple[float, float], ...]:
    return tuple((round(float(a), 9), round(float(b), 9)) for a, b in zip(x, y, strict=True))


def lines_of(axes: Axes) -> set[tuple[tuple[float, float], ...]]:
    return {points(*line.get_data()) for line in axes.lines}


def whiskers_of(axes: Axes) -> set[tuple[tuple[float, float], ...]]:
    collections = [c for c in axes.collections if isinstance(c, LineCollection)]
    return {points(*np.array(s).T) for c in collections for s in c.get_segments()}


@pytest.mark.parametrize(
    ("scale", "name"),
    [*(("tiny", name) for name in CURVES), ("paper", "fig_contamination_free")],
)
def test_curves_show_the_table(drawn: Drawn, scale: str, name: str) -> None:
    """Levels and differences of all problems, then the differences on each benchmark."""
    table, picture = drawn(scale, name)
    *benchmarks, pooled = dict.fromkeys(table["benchmark"])
    shown = [(pooled, "estimate"), *((panel, "difference") for panel in (pooled, *benchmarks))]
    for axes, (benchmark, y) in zip(picture.axes, shown, strict=True):
        panel = table[table["benchmark"] == benchmark]
        lines = panel.groupby("method", observed=True)
        assert lines_of(axes) == {points(line["k"], line[y]) for _, line in lines}
        assert axes.get_title(loc="left").endswith(f"\n{panel['problems'].iloc[0]} problems")
        several = panel if scale == "paper" and y == "estimate" else panel.iloc[:0]
        ends_of = several[["k", "lowest", "highest"]].itertuples(index=False)
        assert whiskers_of(axes) == {points((k, k), ends) for k, *ends in ends_of}
        columns = ("low", "high") if y == "estimate" else ("difference_low", "difference_high")
        bands = [c for c in axes.collections if isinstance(c, PolyCollection)]
        found = {
            round(float(v), 9)
            for b in bands
            for p in b.get_paths()
            for v in np.array(p.vertices)[:, 1]
        }
        assert found == {round(v, 9) for column in columns for v in panel[column]}


def test_the_picture_of_a_study_shows_its_table(drawn: Drawn) -> None:
    table, picture = drawn("tiny", "fig_peers")
    forest, frontier = (table[table["part"] == part] for part in ("forest", "frontier"))
    *panels, last = picture.axes
    rows = [label.get_text() for label in panels[0].get_yticklabels()]
    for axes, k in zip(panels, ("1", "4", "16"), strict=True):
        of_k = forest[forest["k"] == k]
        places = [rows.index(label) for label in forest_labels(of_k)]
        shown = {(x, y) for line in axes.lines for x, y in points(*line.get_data())}
        assert {*points(of_k["estimate"], places)} <= shown
        assert whiskers_of(axes) == {
            ((round(low, 9), y), (round(high, 9), y))
            for low, high, y in zip(of_k["low"], of_k["high"], places, strict=True)
        }
    shown = {point for line in last.lines for point in points(*line.get_data())}
    by_k = frontier.pivot(index=["method", "variant"], columns="k", values="estimate")
    assert shown == {*points(by_k["1"], by_k["16"])}


def forest_labels(rows: "pd.DataFrame") -> list[str]:
    return [f"{row['method']}, {row['variant']}" for _, row in rows.iterrows()]


@pytest.mark.parametrize("name", CURVES)
def test_legend_tells_methods_apart_without_colour(
    experiments: dict[str, Experiment], drawn: Drawn, name: str
) -> None:
    _, picture = drawn("tiny", name)
    (legend,) = picture.legends
    looks = {}
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        if text.get_text().strip():
            assert isinstance(handle, Line2D)
            hollow = handle.get_markerfacecolor() == "white"
            looks[text.get_text()] = (handle.get_marker(), hollow, handle.get_linestyle())
    methods = methods_of(experiments["tiny"], FIGURES[name].policies(experiments["tiny"]))
    assert sorted(looks) == sorted(method.label for method in methods)
    assert len(set(looks.values())) == len(looks)


def test_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    """Also in another process with another hash seed, clock, backend and matplotlibrc."""
    names = ["fig_entropy", "fig_passk_weight"]
    here, there = (experiment_in(tmp_path / folder) for folder in ("here", "there"))
    for experiment in (here, there):
        write_inputs(experiment, "fig_entropy")
    for name in names:
        draw(here, name)
    (tmp_path / "matplotlibrc").write_text("font.size: 20\nsavefig.bbox: tight\n")
    script = (
        "import sys; from pathlib import Path; from rspo.config.experiment import Experiment\n"
        "from rspo.figures import draw\n"
        "experiment = Experiment.load('tiny', root=Path(sys.argv[1]))\n"
        "for name in sys.argv[2:]: draw(experiment, name)"
    )
    changes = {"PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "0", "MPLBACKEND": "svg"}
    changes["MATPLOTLIBRC"] = str(tmp_path / "matplotlibrc")
    command = [sys.executable, "-c", script, str(tmp_path / "there"), *names]
    subprocess.run(command, cwd=ROOT, env=os.environ | changes, check=True)
    for name in names:
        made, again = (FIGURES[name].step(experiment).outputs for experiment in (here, there))
        for one, other in zip(made, again, strict=True):
            assert one.stat().st_size > 500
            assert one.read_bytes() == other.read_bytes(), one.name
        pdf, png, _ = made
        assert b"/FontFile2" in pdf.read_bytes()  # embedded as TrueType
        assert b"/Type3" not in pdf.read_bytes()
        with Image.open(png) as image:
            assert image.width / style.COLUMN_WIDTH >= 150  # dots per inch


def test_draw_leaves_nothing_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(picture: Picture, path: Path, format: str, **options: Any) -> None:
        path.write_bytes(b"half")
        if format == "png":
            raise OSError("No space left on device")

    monkeypatch.setattr(Picture, "savefig", save)
    with pytest.raises(OSError, match="No space"):
        draw(experiment_in(tmp_path), "fig_disjoint")
    assert list((tmp_path / "reports").iterdir()) == []
