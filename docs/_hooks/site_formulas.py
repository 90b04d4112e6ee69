"""Hook of MkDocs: formulas as MathML, which browsers typeset without scripts, fonts or a network.

Docstrings and pages have formulas as text, to be readable in a terminal and on a code host: lines
with an indent, and the weight `w_i = ...` with which a docstring begins.
"""

import re
from typing import Any

MOST_WORDS = 2  # in a line of formulas
_FORMULA = re.compile(r"\bsum\b|\bE\[|\bC\(|\bw_|F'?\(p\)|\bgrad\b|\bpi\(")
_CODE = re.compile(r'["#$`]|\bimport\b|^ *- |rspo|: \[|[a-z]{2}_[a-z]+_|[a-z]{3}_[a-z]{2}')
_BLOCK = re.compile(r"(?<=\n\n)(?: {4}.*(?:\n|\Z))+(?=\n|\Z)")
# A weight at the start of a docstring, up to the words after it.
_WEIGHT = re.compile(
    r"\Aw_(?:i|\(i\)) = .*?(?=, (?:\w{2}|b )|: |; | \((?:paper|arX|[A-Z][\w-]{2})|\.?$)",
    re.MULTILINE,
)
_COMMANDS = {"sum", "max", "min", "log", "exp", "arcsin", "pi", "rho", "sigma"}
_NAMES = {"grad": "nabla"}
_SIGNS = {"<=": r"\le ", ">=": r"\ge ", "!=": r"\ne ", "->": r"\to ", "*": r"\,", "||": r"\| "}
_SHAPES = {
    r"_([a-z]{2,})": r"_{\\mathrm{\1}}",
    r"C\(([^(),]+), ?([^(),]+)\)": r"\\binom{\1}{\2}",
    r"\((\w)/(\w)\)": r"\\frac{\1}{\2}",
    r"sqrt\(([^()]+)\)": r"\\sqrt{\1}",
    r"_\(([^()]+)\)": r"_{(\1)}",
    r"\^\(([^()]+)\)": r"^{\1}",
    r"_([-<])(\w)": r"_{\1\2}",
    r"\bw([+-])\(": r"w^{\1}(",
    r"\bE\[": r"\\mathbb{E}[",
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    return typeset(markdown)


def typeset(text: str) -> str:
    """Markdown with its formulas as MathML."""
    text = _BLOCK.sub(_block, text)
    return _WEIGHT.sub(lambda found: _inline(found[0]), text, count=1)


def _block(found: re.Match[str]) -> str:
    lines = [line.strip() for line in found[0].splitlines() if line.strip()]
    is_text = any(latex(line).count(r"\text") > MOST_WORDS for line in lines)
    if not _FORMULA.search(found[0]) or _CODE.search(found[0]) or is_text:
        return found[0]
    return f'<div class="formula">{"".join(map(_row, lines))}</div>\n'


def _row(line: str) -> str:
    """A formula, its conditions and its source, which spaces separate."""
    parts = re.split(r"(?<=[,.)\]]) {3,}", line)
    made = (part if "arXiv" in part else _math(part, "block") for part in parts)
    return f"<div>{' '.join(made)}</div>"


def _inline(formula: str) -> str:
    """The formula, if it is one: without words, and complete."""
    is_text = r"\text" in latex(formula) or formula.endswith("*")
    # A paragraph may not begin with <math>, which would be a block of HTML.
    return formula if is_text else f"<span>{_math(formula, 'inline')}</span>"


def _math(formula: str, display: str) -> str:
    from latex2mathml.converter import convert

    return str(convert(latex(formula), display=display))


def latex(formula: str) -> str:
    """The LaTeX of a formula as docstrings have it."""
    for sign, command in _SIGNS.items():
        formula = formula.replace(sign, command)
    formula = re.sub(r"(?:(?:Pass|Max)@(?=\w)|(?<!\\)\b(?!sqrt)[A-Za-z]{2,})", _word, formula)
    for shape, command in _SHAPES.items():
        formula = re.sub(shape, command, formula)
    return formula


def _word(found: re.Match[str]) -> str:
    word = found[0]
    if word in _COMMANDS or word in _NAMES:
        return f"\\{_NAMES.get(word, word)} "
    if word in ("Bin", "KL", "Var", "clip", "mean", "softmax", "std"):
        return f"\\operatorname{{{word}}}"
    space = "" if word.endswith("@") else " "
    return f"{{\\text{{{word}{space}}}}}"
