"""Hook of MkDocs: formulas as MathML, which browsers typeset without scripts, fonts or a network.

Docstrings and pages have formulas as text, to be readable in a terminal and on a code host. A
formula stands on indented lines of its own; a docstring may also begin with a weight `w_i = ...`.
"""

import re
from typing import Any

MOST_WORDS = 2  # a line with more words is text
# An indented block is a formula if it has one of these, such as a sum, C(n, k) or F'(p), ...
_FORMULA = re.compile(r"\bsum\b|\bE\[|\bC\(|\bw_|F'?\(p\)|\bgrad\b|\bpi\(")
# ... and none of these, which code and lists have: quotes, imports, names with underscores, ...
_CODE = re.compile(r'["#$`]|\bimport\b|^ *- |rspo|: \[|[a-z]{2}_[a-z]+_|[a-z]{3}_[a-z]{2}')
# Lines with an indent of four spaces, with an empty line before and after them.
_BLOCK = re.compile(r"(?<=\n\n)(?: {4}.*(?:\n|\Z))+(?=\n|\Z)")
# A weight at the start of a docstring, up to the words after it: a comma and a word, a colon, a
# semicolon, a bracket with a source, or the end of the line.
_WEIGHT = re.compile(
    r"\Aw_(?:i|\(i\)) = .*?(?=, (?:\w{2}|b )|: |; | \((?:paper|arX|[A-Z][\w-]{2})|\.?$)",
    re.MULTILINE,
)
# Words that are commands of LaTeX, words with commands of other names, and signs with commands.
_COMMANDS = {"sum", "max", "min", "log", "exp", "arcsin", "pi", "rho", "sigma"}
_NAMES = {"grad": "nabla"}
_SIGNS = {"<=": r"\le ", ">=": r"\ge ", "!=": r"\ne ", "->": r"\to ", "*": r"\,", "||": r"\| "}
# Parts of formulas, as regular expressions, and their LaTeX: in this order, subscripts of several
# letters, binomials, fractions of two letters, roots, subscripts and exponents in brackets,
# subscripts with a sign such as w_-i, the weights w+ and w-, and expectations.
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
    return _WEIGHT.sub(lambda weight: _inline(weight[0]), text, count=1)


def _block(match: re.Match[str]) -> str:
    """An indented block as formulas, one on each line; unchanged if it is no formula."""
    block = match[0]
    lines = [line.strip() for line in block.splitlines() if line.strip()]
    is_text = any(latex(line).count(r"\text") > MOST_WORDS for line in lines)
    if not _FORMULA.search(block) or _CODE.search(block) or is_text:
        return block
    return f'<div class="formula">{"".join(map(_row, lines))}</div>\n'


def _row(line: str) -> str:
    """A line with a formula, its conditions and its source.

    Three or more spaces after punctuation separate these parts.
    """
    parts = re.split(r"(?<=[,.)\]]) {3,}", line)
    typeset_parts = [part if "arXiv" in part else _math(part, "block") for part in parts]
    return f"<div>{' '.join(typeset_parts)}</div>"


def _inline(formula: str) -> str:
    """A weight within a sentence; unchanged if it has words, or ends where a formula cannot."""
    is_text = r"\text" in latex(formula) or formula.endswith("*")
    # A paragraph may not begin with <math>, which would be a block of HTML.
    return formula if is_text else f"<span>{_math(formula, 'inline')}</span>"


def _math(formula: str, display: str) -> str:
    from latex2mathml.converter import convert

    return str(convert(latex(formula), display=display))


def latex(formula: str) -> str:
    """The LaTeX of a formula that is written as in docstrings."""
    for sign, command in _SIGNS.items():
        formula = formula.replace(sign, command)
    # Pass@ and Max@ before a k, and words of two or more letters; roots are replaced below.
    formula = re.sub(r"(?:(?:Pass|Max)@(?=\w)|(?<!\\)\b(?!sqrt)[A-Za-z]{2,})", _word, formula)
    for shape, command in _SHAPES.items():
        formula = re.sub(shape, command, formula)
    return formula


def _word(match: re.Match[str]) -> str:
    """The LaTeX of a word: a command, the upright name of a function, or text."""
    word = match[0]
    if word in _COMMANDS or word in _NAMES:
        return f"\\{_NAMES.get(word, word)} "
    if word in ("Bin", "KL", "Var", "clip", "mean", "softmax", "std"):
        return f"\\operatorname{{{word}}}"
    space = "" if word.endswith("@") else " "
    return f"{{\\text{{{word}{space}}}}}"
