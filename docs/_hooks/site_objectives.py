"""Hook of MkDocs: a page for each objective of the package, made when the site is built.

A page shows the docstrings and the source code, what `rspo.diagnose` computes, and the objectives
with the same weights.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rspo.objectives import OBJECTIVES, Objective, response_weights
from rspo.objectives.diagnose import Diagnosis, diagnose
from rspo.passk import binary_groups

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
FOLDER = "docs/objectives"
# What the pages are computed for: responses of a group, k where one is enough, k, and p in percent.
N = 16
K = 4
KS = (1, 2, 4, 8)
PS = (5, 10, 25, 50, 75, 90)
RSPO = "rspo_pass_at_k"
# The modules with the derivations of the objectives whose functions are in rspo.passk.
BACKGROUND = {
    "rspo_pass_at_k": "rspo.objectives.pass_at_k",
    "rspo_max_at_k": "rspo.objectives.max_at_k",
}


def on_config(config: "MkDocsConfig") -> None:
    """Add the pages to the section of the navigation that has the page about all objectives."""
    groups = {"Of the paper": False, "Of other papers": True}
    section = next(entry["Objectives"] for entry in config.nav or () if "Objectives" in entry)
    for title, is_peer in groups.items():
        names = [name for name, objective in OBJECTIVES.items() if objective.peer is is_peer]
        section.append({title: [{label(name): path(name)} for name in names]})


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the Markdown of each page to the files of the site."""
    from mkdocs.structure.files import File

    for name in OBJECTIVES:
        files.append(File.generated(config, path(name), content=page(name)))
    return files


def on_page_markdown(markdown: str, page: "Page", **_: Any) -> str:
    """Link the first column of the tables in docs/objectives.md, which the code host shows too."""
    if page.file.src_uri != f"{FOLDER}.md":
        return markdown

    def linked(names: re.Match[str]) -> str:
        """The first column of a row, with a link for each name."""
        return re.sub(r"`(\w+)`", r"[`\1`](objectives/\1.md)", names[0])

    # Rows whose first column has nothing but names in backticks, separated by commas.
    return re.sub(r"^\| `\w+`(?:, `\w+`)* \|", linked, markdown, flags=re.MULTILINE)


def path(name: str) -> str:
    """The path of an objective's page."""
    return f"{FOLDER}/{name}.md"


def label(name: str) -> str:
    """The name of an objective in the legends of figures, without LaTeX.

    The module with the labels is read as text, because importing it would need more packages than
    numpy.
    """
    labels: dict[str, str] = {}
    for node in ast.parse((ROOT / "rspo/analysis/labels.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and "LABELS" in ast.unparse(node.targets[0]):
            labels |= ast.literal_eval(node.value)
    return re.sub("[${}^]", "", labels.get(name, name.replace("_", " ")))


def page(name: str) -> str:
    """The Markdown of an objective's page."""
    objective = OBJECTIVES[name]
    module = objective.function.__module__
    background = BACKGROUND.get(name, module)
    in_verl = f"rspo_{name.removeprefix('rspo_')}"
    diagnosis = diagnose(name, K if objective.has_k else None, N)
    k = f"k = {K}, " if objective.has_k else ""
    return f"""# {label(name)}

`{name}` in configs, `response_weights` and `rspo diagnose`; `{in_verl}` in verl.

| | |
|---|---|
| k | {objective.k_rule.value} |
| n | at least {smallest_n(objective)} |
| rewards | {"0 or 1" if objective.binary else "any finite numbers"} |
| same weights | {"; ".join(same_weights(objective)) or "no other objective"} |

## Formula

::: {module}.{objective.function.__name__}
    options: {{show_source: true}}

## Background

::: {background}
    options: {{members: false, show_root_heading: false, show_root_toc_entry: false}}

## What it maximizes

On 0/1 rewards, where each response is correct with probability p, the expected update follows the
gradient of a function F(p) ([how it is computed](../objectives.md#diagnose-an-objective)). For
{k}n = {N}:

{picture(diagnosis)}

{points(diagnosis)}

Var is the variance of the gradient of a policy whose only parameter is the logit of p, and S/N the
square of this gradient's mean over Var. The last column is the S/N of RSPO with k = {K}.

With n = {N}, the weights are unbiased for:

{targets(objective)}

*Centred* is after subtracting the mean of the group's weights, *standardized* after dividing by
their standard deviation too, as many trainers do.
"""


def smallest_n(objective: Objective) -> int:
    """The smallest number of responses that an objective allows, with k = 1."""
    return next(n for n in range(1, N) if objective.allows(1, n))


def same_weights(objective: Objective) -> Iterator[str]:
    """The objectives that give equal weights to the same groups, with k as far as both allow it."""
    # Few different values, so that there are ties; and every group of 0/1 rewards, in random order.
    rng = np.random.default_rng(0)
    graded = rng.integers(-8, 9, (64, N)) / 4.0
    shuffled = rng.permuted(binary_groups(N), axis=-1)
    for other in OBJECTIVES.values():
        if other.name == objective.name or other.has_k != objective.has_k:
            continue
        kinds = {"0/1 rewards": shuffled}
        if not (objective.binary or other.binary):
            kinds["any rewards"] = graded
        equal = [kind for kind, groups in kinds.items() if _equal(objective, other, groups)]
        if equal:
            link = f"[`{other.name}`]({other.name}.md)"
            yield f"{link} on {equal[-1]}"  # any rewards include 0/1 rewards


def _equal(first: Objective, second: Objective, groups: np.ndarray) -> bool:
    """Whether two objectives give equal weights with every k that both allow."""
    ks = [k for k in KS if first.allows(k, N) and second.allows(k, N)]
    weights_of_first = [response_weights(groups, first.name, k) for k in ks]
    weights_of_second = [response_weights(groups, second.name, k) for k in ks]
    return np.allclose(weights_of_first, weights_of_second, rtol=0, atol=1e-9)


def targets(objective: Objective) -> str:
    """A table of what the weights are unbiased for, with each k."""
    rows = ["| k | as they are | centred | standardized |", "|---|---|---|---|"]
    for k in KS if objective.has_k else (None,):
        diagnosis = diagnose(objective.name, k, N, p=[0.5])
        forms = (diagnosis.weights, diagnosis.centred, diagnosis.standardized)
        cells = [re.sub("^(unbiased for|maximizes) ", "", form.target) for form in forms]
        cells = [cell.replace("not unbiased for any", "no") for cell in cells]
        rows.append(f"| {k or 'none'} | {' | '.join(cells)} |")
    return "\n".join(rows)


def points(diagnosis: Diagnosis) -> str:
    """A table of the weights' properties for the p of `PS`."""
    rspo = diagnose(RSPO, K, N)
    rows = ["| p | F(p) | F'(p) | Var | S/N | weights of 0 | S/N of RSPO |"]
    rows.append("|---|---|---|---|---|---|---|")
    form = diagnosis.weights
    for i in PS:  # the default p of `diagnose` are 0, 0.01, ... 1, so i percent have the index i
        numbers = (form.value[i], form.slope[i], form.variance[i], form.signal_to_noise[i])
        cells = [f"{number:.3g}" for number in numbers]
        cells += [f"{form.zeros[i]:.0%}", f"{rspo.weights.signal_to_noise[i]:.3g}"]
        rows.append(f"| {diagnosis.p[i]:.2f} | {' | '.join(cells)} |")
    return "\n".join(rows)


# The size of a picture, and the place of its axes, in pixels from the top left.
WIDTH = 480
HEIGHT = 230
LEFT = 40
BASE = 190


def picture(diagnosis: Diagnosis) -> str:
    """F' of the objective, and of RSPO as a dashed line, as SVG in the colours of the page."""
    curves = {}  # attributes of a line in SVG -> its values; the objective's line is on top
    if diagnosis.name != RSPO:
        curves["stroke-dasharray='5 4'"] = diagnose(RSPO, K, N).weights.slope
    curves[""] = diagnosis.weights.slope
    highest = max(1.0, max(float(slope.max()) for slope in curves.values()))
    x = LEFT + diagnosis.p * (WIDTH - LEFT - 10)

    def y(slope: Any) -> Any:
        return BASE - slope / highest * (BASE - 20)

    def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
        return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'

    lines = [f'<path d="M{LEFT} 20V{BASE}H{WIDTH - 10}"/>']
    for look, slope in curves.items():
        corners = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y(slope), strict=True))
        lines.append(f'<polyline points="{corners}" stroke-width="2" {look}/>')
    words = [text(LEFT - 6, y(tick) + 4, f"{tick:.3g}", "end") for tick in (0, highest)]
    words += [text(x[i], BASE + 16, f"{diagnosis.p[i]:g}") for i in (0, 25, 50, 75, 100)]
    words += [text((LEFT + WIDTH) / 2, HEIGHT - 6, "p"), text(LEFT, 12, "F'(p)", "start")]
    if len(curves) > 1:
        words.append(text(WIDTH - 10, 12, f"dashed: RSPO, k = {K}", "end"))
    title = f"F'(p) of {diagnosis.name}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" style="max-width: 100%" role="img" '
        f'aria-label="{title}" fill="none" stroke="currentColor">{"".join(lines)}'
        f'<g fill="currentColor" stroke="none" font-size="12">{"".join(words)}</g></svg>'
    )
