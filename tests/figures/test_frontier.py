"""Labels of the frontiers of the published studies: readable, each at the end of its line."""

import re

import numpy as np
import pytest
from matplotlib.text import Annotation, Text

from rspo.analysis import studies
from rspo.analysis.comparisons import Method
from rspo.analysis.results import read_rows
from rspo.config.experiment import Experiment
from rspo.figures import study, style
from rspo.figures.style import Picture
from tests.support import ROOT

# Those that a label names; the small print of a picture with many points names its variants, and a
# label has what the variants of a line have in common.
VARIANTS = {"knobs": ("lr", "entropy"), "peers": ()}


def frontier(name: str, k: str, scale: str = "tiny") -> Picture:
    experiment = Experiment.load(scale, root=ROOT)
    looks = style.looks([Method("base"), *studies.lines_of(experiment, name)])
    rows = read_rows(ROOT / "docs" / "studies" / f"{name}.csv")
    levels = rows[(rows["method_b"] == "") & (rows["claim"] == "") & rows["k"].isin(["1", k])]
    levels = levels.rename(columns={"method_a": "method"}).assign(estimate=100 * rows["estimate"])
    with style.applied():
        picture = style.new_picture(3, 2.5)
        study._draw_frontier(picture.subplots(), levels, looks)
        picture.draw_without_rendering()
    return picture


@pytest.mark.parametrize(("name", "k"), [("knobs", "16"), ("peers", "16")])
def test_labels_are_inside_the_panel_apart_from_points_and_from_each_other(
    name: str, k: str
) -> None:
    (axes,) = frontier(name, k).axes
    panel = axes.get_window_extent()
    points = axes.transData.transform(np.concatenate([line.get_xydata() for line in axes.lines]))
    labels = [one for one in axes.texts if one.get_text()]
    boxes = [Text.get_window_extent(label) for label in labels]
    for label, box in zip(labels, boxes, strict=True):
        assert isinstance(label, Annotation)
        assert panel.contains(*box.min), label
        assert panel.contains(*box.max), label
        assert not box.count_contains(points), label
        assert box.count_overlaps(boxes) == 1, label  # itself
    texts = [label.get_text() for label in labels]
    assert {"RSPO", "PG", "base"} <= {re.split(" k=|, ", text)[0] for text in texts}
    assert set(VARIANTS[name]) <= {text.rpartition(", ")[2] for text in texts}


def test_of_few_points_each_has_a_label() -> None:
    (axes,) = frontier("pretrained", "16", scale="pretrained").axes
    points = {tuple(point) for line in axes.lines for point in line.get_xydata()}
    texts = [label.get_text() for label in axes.texts if label.get_text()]
    assert len(texts) == len(points) == 9
    assert {"MaxRL, lr-triple", "MaxPO k=1, lr-third", "GRPO, lr-third", "GRPO"} <= set(texts)
    assert {line.get_alpha() for line in axes.lines} == {1.0}


def test_the_papers_methods_stand_out_and_others_are_faint() -> None:
    """GRPO is among the paper's methods."""
    (axes,) = frontier("peers", "16").axes
    opacities: dict[str, set[float | None]] = {}
    for line in axes.lines:
        method = re.split(" k=|, ", str(line.get_label()))[0]
        opacities.setdefault(method, set()).add(line.get_alpha())
    for method in ("PG", "GRPO", "RSPO", "Baseline", "base"):
        assert opacities.pop(method) == {1.0}, method
    assert set.union(*opacities.values()) == {0.4}


def test_contrasts_that_subtract_the_same_share_the_forest_plot() -> None:
    """From several methods, or at several k with a family each."""
    config = Experiment.load("tiny", root=ROOT).config

    def drawn(name: str) -> list[str]:
        first, *_ = contrasts = config.studies[name].contrasts
        return [one.family for one in contrasts if study._share_a_plot(one, first)]

    assert drawn("remedies") == [f"{one} against RSPO k=8" for one in ("PG", "GRPO", "MaxRL")]
    assert [family.partition(",")[0] for family in drawn("peers")] == [
        f"Pass@{k}" for k in (1, 2, 4, 8, 16)
    ]
    others = ("policy gradient", "GRPO", "the baseline")
    assert drawn("own_rates") == [f"RSPO against {one}, own rates" for one in others]
    config = Experiment.load("pretrained", root=ROOT).config
    assert drawn("pretrained") == ["RSPO against GRPO, own rates, Pass@k of its k"]


@pytest.mark.parametrize(
    ("scale", "name"),
    [
        (scale, path.stem)
        for scale in ("tiny", "pretrained")
        for path in sorted((ROOT / "docs" / "evidence").glob("*.parquet"))
        if path.stem in Experiment.load(scale, root=ROOT).config.studies
    ],
)
def test_no_two_differences_of_a_published_study_have_the_same_place(scale: str, name: str) -> None:
    """In the forest plot: the same row of the same panel."""
    experiment = Experiment.load(scale, root=ROOT)
    entry = experiment.config.studies[name]
    if entry.k:  # it has curves
        return
    first = entry.contrasts[0]
    families = [one.family for one in entry.contrasts if study._share_a_plot(one, first)]
    rows = read_rows(ROOT / "docs" / "studies" / f"{name}.csv")
    rows = rows[rows["family"].isin(families)]
    rows = rows.rename(columns={"method_a": "method", "method_b": "against"})
    named = study._with_own_rates(rows, entry, studies.chooser(experiment, name))
    places = rows.assign(label=study._labels(named))[["claim", "k", "label"]]
    assert len(places) > 0
    assert not places.duplicated().any()
