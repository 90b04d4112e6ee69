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
N = 16
K = 4
KS = (1, 2, 4, 8)
PS = (5, 10, 25, 50, 75, 90)  # percent
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
    section += [
        {title: [{label(o.name): path(o.name)} for o in OBJECTIVES.values() if o.peer is peer]}
        for title, peer in groups.items()
    ]


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    from mkdocs.structure.files import File

    for name in OBJECTIVES:
        files.append(File.generated(config, path(name), content=page(name)))
    return files


def on_page_markdown(markdown: str, page: "Page", **_: Any) -> str:
    """Link the first column of the tables in docs/objectives.md, which the code host shows too."""
    if page.file.src_uri != f"{FOLDER}.md":
        return markdown

    def linked(names: re.Match[str]) -> str:
        return re.sub(r"`(\w+)`", r"[`\1`](objectives/\1.md)", names[0])

    return re.sub(r"^\| `\w+`(?:, `\w+`)* \|", linked, markdown, flags=re.MULTILINE)


def path(name: str) -> str:
    return f"{FOLDER}/{name}.md"


def label(name: str) -> str:
    """As in the legends of figures. Their module is read, because it imports more than numpy."""
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
    found = diagnose(name, K if objective.has_k else None, N)
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

{picture(found)}

{points(found)}

Var is the variance of the gradient of a policy whose only parameter is the logit of p, and S/N the
square of this gradient's mean over Var. The last column is the S/N of RSPO with k = {K}.

With n = {N}, the weights are unbiased for:

{targets(objective)}

*Centred* is after subtracting the mean of the group's weights, *standardized* after dividing by
their standard deviation too, as many trainers do.
"""


def smallest_n(objective: Objective) -> int:
    return next(n for n in range(1, N) if objective.allows(1, n))


def same_weights(objective: Objective) -> Iterator[str]:
    """The objectives that give equal weights to the same groups, with k as far as both allow it."""
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
            yield f"{link} on {equal[-1]}"


def _equal(one: Objective, other: Objective, groups: np.ndarray) -> bool:
    ks = [k for k in KS if one.allows(k, N) and other.allows(k, N)]
    weights = [[response_weights(groups, o.name, k) for k in ks] for o in (one, other)]
    return np.allclose(*weights, rtol=0, atol=1e-9)


def targets(objective: Objective) -> str:
    """A table of what the weights are unbiased for, with each k."""
    rows = ["| k | as they are | centred | standardized |", "|---|---|---|---|"]
    for k in KS if objective.has_k else (None,):
        found = diagnose(objective.name, k, N, p=[0.5])
        forms = found.weights, found.centred, found.standardized
        cells = [re.sub("^(unbiased for|maximizes) ", "", form.target) for form in forms]
        cells = [cell.replace("not unbiased for any", "no") for cell in cells]
        rows.append(f"| {k or 'none'} | {' | '.join(cells)} |")
    return "\n".join(rows)


def points(found: Diagnosis) -> str:
    """A table of the weights' properties for some p."""
    rspo = diagnose(RSPO, K, N)
    rows = ["| p | F(p) | F'(p) | Var | S/N | weights of 0 | S/N of RSPO |"]
    rows.append("|---|---|---|---|---|---|---|")
    form = found.weights
    for i in PS:
        numbers = form.value[i], form.slope[i], form.variance[i], form.signal_to_noise[i]
        cells = [f"{number:.3g}" for number in numbers]
        cells += [f"{form.zeros[i]:.0%}", f"{rspo.weights.signal_to_noise[i]:.3g}"]
        rows.append(f"| {found.p[i]:.2f} | {' | '.join(cells)} |")
    return "\n".join(rows)


WIDTH, HEIGHT, LEFT, BASE = 480, 230, 40, 190


def picture(found: Diagnosis) -> str:
    """F' of the objective, and of RSPO as a dashed line, as SVG in the colours of the page."""
    curves = {"": found.weights.slope}
    if found.name != RSPO:
        curves = {"stroke-dasharray='5 4'": diagnose(RSPO, K, N).weights.slope, **curves}
    highest = max(1.0, *(float(slope.max()) for slope in curves.values()))
    x = LEFT + found.p * (WIDTH - LEFT - 10)

    def y(slope: Any) -> Any:
        return BASE - slope / highest * (BASE - 20)

    def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
        return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>'

    lines = [f'<path d="M{LEFT} 20V{BASE}H{WIDTH - 10}"/>']
    for look, slope in curves.items():
        corners = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y(slope), strict=True))
        lines.append(f'<polyline points="{corners}" stroke-width="2" {look}/>')
    words = [text(LEFT - 6, y(tick) + 4, f"{tick:.3g}", "end") for tick in (0, highest)]
    words += [text(x[i], BASE + 16, f"{found.p[i]:g}") for i in (0, 25, 50, 75, 100)]
    words += [text((LEFT + WIDTH) / 2, HEIGHT - 6, "p"), text(LEFT, 12, "F'(p)", "start")]
    if len(curves) > 1:
        words.append(text(WIDTH - 10, 12, f"dashed: RSPO, k = {K}", "end"))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" style="max-width: 100%" role="img" '
        f'aria-label="F\'(p) of {found.name}" fill="none" stroke="currentColor">{"".join(lines)}'
        f'<g fill="currentColor" stroke="none" font-size="12">{"".join(words)}</g></svg>'
    )
