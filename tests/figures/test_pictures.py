"""The pictures: each one is drawn, tells what it shows, and can be read, also in grey."""

import io
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import seaborn
import seaborn.objects
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure as Picture
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from matplotlib.text import Text
from PIL import Image

from rspo.config.experiment import Experiment
from rspo.config.names import BASE
from rspo.config.schema import Study
from rspo.figures import FIGURES, Figure, curves, disjoint, draw, figures_of, group, study, style
from rspo.figures.methods import methods_of
from tests.support import ROOT
from tests.support.planted import PAPER, experiment_in, load, write_inputs

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
    """First the levels on each benchmark and on all problems, as in the paper; then differences."""
    table, picture = drawn(scale, name)
    panels = dict.fromkeys(table["benchmark"])
    assert [*panels][-1] == "pooled"
    shown = [(panel, y) for y in ("estimate", "difference") for panel in panels]
    for axes, (benchmark, y) in zip(picture.axes, shown, strict=True):
        panel = table[table["benchmark"] == benchmark]
        lines = panel.groupby("method", observed=True)
        assert lines_of(axes) == {points(line["k"], line[y]) for _, line in lines}
        assert not whiskers_of(axes)
        if y == "estimate":
            assert axes.get_title(loc="left").endswith(f"\n{panel['problems'].iloc[0]} problems")
            assert bands_of(axes) == set()
        else:
            ends = panel[["difference_low", "difference_high"]].to_numpy().flatten()
            assert bands_of(axes) == {round(float(end), 9) for end in ends}
    for above, below in zip(picture.axes, picture.axes[len(panels) :], strict=False):
        assert above.get_position().x0 == pytest.approx(below.get_position().x0)
        assert above.get_position().y0 > below.get_position().y1


def test_a_long_title_stands_above_its_brackets() -> None:
    rows = pd.DataFrame({"problems": [30]})
    title = "Minerva (without the problems that are not numbers)"
    assert curves._title(title, 6, rows).splitlines()[0] == "Minerva"
    assert curves._title("Minerva (new)", 2, rows).splitlines() == ["Minerva (new)", "30 problems"]


def test_differences_stand_beside_their_k(drawn: Drawn) -> None:
    """Those to the baseline on the left, to policy gradient in the middle, to GRPO on the right."""
    table, picture = drawn("tiny", "fig_difference")
    (axes,) = picture.axes
    shown = {point for line in axes.lines for point in points(*line.get_data())}
    ks = [label.get_text() for label in axes.get_xticklabels()]
    for row in table.to_dict("records"):
        tick = ks.index(str(row["k"]))
        ((_, estimate),) = points([tick], [row["estimate"]])
        shifts = [x - tick for x, y in shown if y == estimate and abs(x - tick) < 0.5]
        side = {"baseline": -1, "policy gradient": 0, "GRPO": 1}[row["against"]]
        assert any(np.sign(round(shift, 9)) == side for shift in shifts), row


def test_a_difference_is_written_with_what_its_test_shows(drawn: Drawn) -> None:
    table, picture = drawn("tiny", "fig_difference")
    (axes,) = picture.axes
    written = Counter(text.get_text() for text in axes.texts)
    expected = Counter()
    for row in table.to_dict("records"):
        mark = " =" if row["p_tie_adjusted"] < 0.05 else ""
        if row["p_adjusted"] < 0.05:
            mark = " *"
        value = f"{row['estimate']:+.1f}".replace("-", "\u2212")
        expected[("0.0" if value[1:] == "0.0" else value) + mark] += 1
    assert written == expected


def test_a_panel_says_what_it_subtracts_if_another_one_subtracts_something_else() -> None:
    rows = FOREST.assign(against=["RSPO k=2", "RSPO k=2", "PG"], k=["2", "2", "1"])
    assert study._title("2", rows[:2], rows) == "Pass@2\n\u2212 RSPO k=2"
    assert study._title("1", rows[2:], rows) == "Pass@1\n\u2212 PG"
    assert study._title("2", rows[:2], rows[:2]) == "Pass@2"  # the label below says it
    mixed = rows.assign(k="2")
    assert study._title("2", mixed, mixed) == "Pass@2"  # the labels of rows say it
    assert study._title("C1", rows.assign(claim="C1"), rows) == "C1"


def test_the_small_print_says_which_variants_the_lines_of_a_method_join() -> None:
    """Two methods with the variants of one stem, of which each has others."""
    names = {"PG": ["default", "rate-1", "rate-2"], "GRPO": ["default", "rate-1", "rate-2"]}
    names["RSPO k=4"] = ["default", "rate-3"]
    rows = [(method, variant) for method, of_method in names.items() for variant in of_method]
    many = study._LABEL_LIMIT
    levels = pd.DataFrame(many * rows, columns=["method", "variant"])
    expected = ["lines join default, rate-1, rate-2", "lines join default, rate-3"]
    assert study._orders(levels) == expected
    assert study._orders(levels[:8]) == []  # few points, which have labels
    assert study._least_height(levels) > study._least_height(levels[:8])


def test_the_small_print_names_a_variant_that_only_some_methods_have() -> None:
    methods = ["PG", "PG", "GRPO", "RSPO k=4", BASE]
    rows = pd.DataFrame({"method": methods, "variant": ["same", "same", "same", "faster", ""]})
    assert study._other_variants(rows) == ["RSPO k=4: faster, other methods: same"]
    assert study._other_variants(rows.replace("faster", "same")) == []
    several = rows.assign(method=["PG", "PG", "GRPO", "PG", BASE])
    assert study._other_variants(several) == []  # the legend names them


@pytest.mark.parametrize("name", ["fig_intro", "fig_passk_weight"])
def test_every_panel_says_what_is_on_its_y_axis(drawn: Drawn, name: str) -> None:
    _, picture = drawn("tiny", name)
    assert all(axes.get_ylabel() for axes in picture.axes)


def test_with_one_benchmark_its_two_panels_fill_the_picture(tmp_path: Path) -> None:
    experiment = load(tmp_path, seeds=1)
    name = "fig_contamination_free"
    write_inputs(experiment, name)
    figure = FIGURES[name]
    table = figure.table(experiment, figure)
    with style.applied():
        picture = figure.draw(table, experiment, figure)
        picture.draw_without_rendering()
    levels, differences = picture.axes
    assert lines_of(levels) != lines_of(differences)
    assert levels.get_title(loc="left").startswith("newer\n")
    width = levels.get_position().width + differences.get_position().width
    assert width > 0.8
    assert "seeds" not in picture.get_supxlabel()


def test_a_method_looks_the_same_in_all_figures(drawn: Drawn) -> None:
    """Also in forests and frontiers; other n than the usual one are other lines."""
    names = [*CURVES, "fig_entropy", "fig_sample_efficiency", "fig_peers", "fig_overtake"]
    names += ["fig_passk_weight", "fig_knobs", "fig_passes"]
    looks: dict[str, set[tuple[Any, ...]]] = {}
    for name in names:
        _, picture = drawn("tiny", name)
        legends = [text.get_text() for legend in picture.legends for text in legend.get_texts()]
        for line in [line for axes in picture.axes for line in axes.lines]:
            label = {"1": "PG"}.get(str(line.get_label()), str(line.get_label()))
            label = f"RSPO k={label}" if label.isdecimal() else label.replace("base", "Base")
            label = re.split(", n=16|, rate|, entropy", label)[0]
            is_method = re.match("PG|Base|RSPO|GRPO$", label) and "n=" not in label
            if is_method and line.get_marker() not in ("", "None"):
                face = "white" if line.get_markerfacecolor() == "white" else "filled"
                look = to_hex(line.get_color()), line.get_marker(), face, line.get_linewidth()
                looks.setdefault(label, set()).add((*look, line.get_markersize()))
        assert legends or name in ("fig_peers", "fig_knobs", "fig_passes")
    assert {"PG", "Base", "GRPO", "RSPO k=2", "Baseline k=2", "RSPO k=8"} <= looks.keys()
    assert {label: len(found) for label, found in looks.items()} == dict.fromkeys(looks, 1)
    # Section 5.2 of the paper.
    for family in ("RSPO", "Baseline"):
        (light,), (middle,), (dark,) = (looks[f"{family} k={k}"] for k in (2, 4, 8))
        assert lightness(light[0]) > lightness(middle[0]) > lightness(dark[0])
        assert light[3] < middle[3] < dark[3]
    ((colour, *_),) = looks["PG"]
    assert colour == "#000000"


def lightness(colour: str) -> float:
    """Of a colour as grey."""
    return float(np.dot(to_rgb(colour), (0.299, 0.587, 0.114)))


def test_marks_are_drawn_by_seaborn(
    experiments: dict[str, Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every module that draws: without seaborn its panels have no marks."""
    drawing: dict[str, Figure] = {}
    for figure in figures_of(experiments["tiny"]).values():
        drawing.setdefault(figure.draw.__module__, figure)
    modules = {path.stem for path in (ROOT / "rspo" / "figures").glob("*.py")}
    shared = {"__init__", "figure", "methods", "style", "training_lines", "weight_lines"}
    shared.add("compared")  # of `rspo compare`; tests/evaluation/test_compare.py draws it
    assert {name.rpartition(".")[2] for name in drawing} == modules - shared
    for figure in drawing.values():
        context = (experiments["tiny"], figure) if figure.of_results else ()
        table = figure.table(*context)
        with style.applied(), monkeypatch.context() as patch:
            calls = Mock()
            patch.setattr(seaborn.objects.Plot, "plot", calls)
            patch.setattr(seaborn, "heatmap", calls)
            for module, name in ((style, "_finish"), (disjoint, "_grey"), (study, "_label")):
                patch.setattr(module, name, Mock())
            picture = figure.draw(table, *context)
        assert calls.called, figure.name
        data = [line for axes in picture.axes for line in axes.lines if is_data(line)]
        bars = [patch for axes in picture.axes for patch in axes.patches]
        assert not data, figure.name
        assert not bars, figure.name


def is_data(line: Line2D) -> bool:
    """Not a straight line for reading, such as the one at 0."""
    return len(line.get_xdata()) > 2


def test_the_picture_of_a_study_shows_its_table(drawn: Drawn) -> None:
    table, picture = drawn("tiny", "fig_peers")
    forest, frontier = (table[table["part"] == part] for part in ("forest", "frontier"))
    *panels, last = picture.axes
    rows, seen = [label.get_text() for label in panels[0].get_yticklabels()], set[str]()
    for axes, k in zip(panels, ("1", "4", "16"), strict=True):
        of_k = forest[forest["k"] == k]
        # Of each method only the rate that is chosen is compared, so that its name is the label.
        places = [rows.index(method) for method in of_k["method"]]
        shown = {(x, y) for line in axes.lines for x, y in points(*line.get_data())}
        assert {*points(of_k["estimate"], places)} <= shown
        assert whiskers_of(axes) == {
            ((round(low, 9), y), (round(high, 9), y))
            for low, high, y in zip(of_k["low"], of_k["high"], places, strict=True)
        }
        marks = {(text.get_text(), text.xy[1]) for text in axes.texts}
        assert marks == {
            ("*" if p < 0.05 else "=", y)
            for p, tie, y in zip(of_k["p_adjusted"], of_k["p_tie_adjusted"], places, strict=True)
            if p < 0.05 or tie < 0.05
        }
        seen |= {mark for mark, _ in marks}
    assert seen == {"*", "="}
    p = forest[["p_adjusted", "p_tie_adjusted"]]
    assert (p < 0.05).all(axis="columns").any()  # then the star is shown
    shown = {point for line in last.lines for point in points(*line.get_data())}
    by_k = frontier.pivot(index=["method", "variant"], columns="k", values="estimate")
    assert shown == {*points(by_k["1"], by_k["16"])}


def bands_of(axes: Axes) -> set[float]:
    """The heights of the corners of all bands."""
    paths = [patch.get_path() for patch in axes.patches if isinstance(patch, Polygon)]
    return {round(float(y), 9) for path in paths for y in np.array(path.vertices)[:, 1]}


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
        made, again = (FIGURES[name].task(experiment).outputs for experiment in (here, there))
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


def test_only_the_best_responses_of_the_baseline_have_bars_without_hatching(drawn: Drawn) -> None:
    """Its weight counts for all responses of a group, but only the best one earns it."""
    table, picture = drawn("tiny", "fig_hitchhiking")
    rewards = table[table["quantity"] == "reward"]
    best = set(rewards.loc[rewards.groupby("group")["value"].idxmax(), "response"])
    panels = dict(zip(table["quantity"].unique(), picture.axes, strict=True))
    for quantity, axes in panels.items():
        rows = table[(table["quantity"] == quantity) & (table["value"] != 0)]
        bars = {round(bar.get_x() + bar.get_width() / 2): bar for bar in axes.patches}
        assert sorted(bars) == sorted(rows["response"])
        for row in rows.itertuples():
            bar = bars[row.response]
            assert bar.get_height() == pytest.approx(row.value)
            is_full = quantity != "baseline weight" or row.response in best
            assert (bar.get_hatch() == "") == is_full, (quantity, row.response)


FOREST = pd.DataFrame(
    {
        "method": ["RSPO k=4", "RSPO k=4", "GRPO"],
        "variant": ["default", "slow", "slow"],
        "claim": ["", "", ""],
        "k": ["4", "4", "4"],
        "against": ["PG", "PG", "PG"],
    }
)


def test_a_row_of_the_forest_plot_is_labelled_with_what_differs() -> None:
    assert study._labels(FOREST).tolist() == ["RSPO k=4, default", "RSPO k=4, slow", "GRPO, slow"]
    assert study._labels(FOREST[1:]).tolist() == ["RSPO k=4", "GRPO"]
    assert study._labels(FOREST.assign(claim="C1")).tolist() == ["default", "slow", "slow"]
    several = FOREST[:2].assign(variant="own rate", against=["PG", "Baseline k=4"])
    assert study._labels(several).tolist() == ["RSPO \u2212 PG", "RSPO \u2212 Baseline"]


def test_variants_among_which_a_study_chooses_have_one_name_and_others_keep_theirs() -> None:
    """Also where another study chooses."""
    entries = Experiment.load("tiny", root=ROOT).config.studies
    own_rates, need_a_k = entries["own_rates"], entries["need_a_k"]
    of_rates = ["lr-same", "lr-third", "lr-triple"]
    choosing = entries["learning_rates"].model_copy(update={"choose_within": of_rates})
    rows = FOREST.assign(variant=["lr-third", "lr-same", "averaged-0.5"])

    def named(entry: Study) -> list[str]:
        return study._with_own_rates(rows, entry, choosing)["variant"].tolist()

    assert named(own_rates) == ["own rate", "own rate", "averaged-0.5"]
    assert named(need_a_k) == ["lr-third", "lr-same", "averaged-0.5"]  # one rate for all k


def test_both_panels_of_a_single_benchmark_keep_their_labels() -> None:
    """Of several benchmarks, only the first column has labels of the y axes."""
    beside = style.new_picture(style.TEXT_WIDTH, 3).subplots(1, 2)
    grid = style.new_picture(style.TEXT_WIDTH, 3).subplots(2, 2)
    for levels, differences in (beside, grid[:, 0], grid[:, 1]):
        levels.set_ylabel("Pass@k (%)")
        differences.set(xlabel="k of Pass@k", ylabel="minus PG (points)")
        curves._remove_repeated_labels((levels, differences))
    assert [axes.get_xlabel() for axes in beside] == ["k of Pass@k", "k of Pass@k"]
    assert [axes.get_ylabel() for axes in beside] == ["Pass@k (%)", "minus PG (points)"]
    assert [axes.get_ylabel() for axes in grid[:, 0]] == ["Pass@k (%)", "minus PG (points)"]
    assert [axes.get_ylabel() for axes in grid[:, 1]] == ["", ""]


@pytest.mark.parametrize("panels", [1, 2, 3])
def test_the_label_below_a_forest_is_in_the_middle_of_its_panels(panels: int) -> None:
    rows = pd.DataFrame(
        {
            "method": "GRPO",
            "label": "GRPO",
            "panel": [str(k + 1) for k in range(panels)],
            "against": "PG",
            "claim": "",
            "estimate": 1.0,
            "low": 0.0,
            "high": 2.0,
            **dict.fromkeys(("p_adjusted", "p_tie_adjusted"), 1.0),
        }
    )
    picture = style.new_picture(style.TEXT_WIDTH, 2)
    study._draw_forests(picture, rows, {"GRPO": style.Look("#000000", marker="o")}, margin=0.1)
    picture.draw_without_rendering()
    (label,) = [axes.xaxis.label for axes in picture.axes if axes.get_xlabel()]
    assert label.get_text() == "difference, minus PG (percentage points)"
    middle = (picture.axes[0].bbox.x0 + picture.axes[-1].bbox.x1) / 2
    box = label.get_window_extent()
    assert (box.x0 + box.x1) / 2 == pytest.approx(middle, abs=0.02 * picture.bbox.width)


def test_the_weights_can_be_cut_between_two_methods_and_above_the_small_print() -> None:
    """The report shows the two halves below each other on a phone."""
    with style.applied():
        picture = group.draw(group.table())
        pixels = io.BytesIO()
        picture.savefig(pixels, dpi=100)
    pixels.seek(0)
    grey = np.array(Image.open(pixels).convert("L"))
    height, width = grey.shape
    assert width / height == pytest.approx(group.ASPECT)
    bottom, middle = round(group.BOTTOM * height), round(group.MIDDLE * width)
    assert (grey[: bottom - 1, middle - 1 : middle + 1] == 255).all()
    assert (grey[bottom - 1 : bottom + 1] == 255).all()
    panels = [axes.bbox.x0 for axes in picture.axes[:4]]
    assert panels[1] < group.MIDDLE * picture.bbox.width < panels[2]


def test_the_small_print_says_what_the_short_name_stands_for(drawn: Drawn) -> None:
    _, picture = drawn("tiny", "fig_peers")
    assert "PG: policy gradient" in picture.get_supxlabel().replace("\n", " ")


def test_of_many_points_only_the_end_of_each_line_is_labelled() -> None:
    places = list(range(study._LABEL_LIMIT + 1))
    points = pd.DataFrame(
        {
            "method": [f"method {place}" for place in places],
            "variant": "",
            "line": ["first" if place < 5 else "second" for place in places],
            "faint": False,
            "x": places,
            "y": places,
        }
    )
    labelled = study._named(points)
    assert dict(zip(labelled["label"], labelled["x"], strict=True)) == {
        "first": 4,
        "second": places[-1],
    }
    assert len(study._named(points[:3])) == 3


def test_differences_are_to_the_only_line_of_policy_gradient_of_the_model_or_to_its_base() -> None:
    experiment = Experiment.load("tiny", root=ROOT)
    names = ["small--policy-gradient--k1--n16--s0", "small--rspo-pass--k4--n16--s0"]
    gradient, rspo, base, other = methods_of(experiment, [*names, "small--base", "medium--base"])
    methods = [gradient, rspo, base, other]
    assert curves._reference(experiment, rspo, methods) == gradient
    assert curves._reference(experiment, rspo, [rspo, base, other]) == base
    assert curves._reference(experiment, rspo, [rspo, gradient, gradient, base]) == base
    assert curves._reference(experiment, other, methods) == other
