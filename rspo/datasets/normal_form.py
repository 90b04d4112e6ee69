r"""Normal form of a problem's text: equal for copies that differ only in how they are typed.

The normal form ignores:

- the form of Unicode (NFKC), upper and lower case, curly quotes and long dashes for plain ones;
- whitespace, LaTeX's own spacing (`\,`, `\quad`, `~`, `\\`) and sizes (`\left`, `\dfrac`);
- math delimiters (`$`, `\(`, `\[`) and braces around one raised or lowered sign (`x^{2}`);
- the marks of sentences (`. , ; : ?` and double quotes), unless they stand between two digits.

All other characters count: x+1 is not x-1, and f'(1) is not f(1).
"""

import re
import unicodedata

_PLAIN = str.maketrans("‘’−–—", "''---")
_SPACING = re.compile(r"\\\\|\\(?:quad|qquad|left|right|displaystyle)(?![a-zA-Z])|\\[,;:!> ]|~|\s")
_DELIMITER = re.compile(r"\\?\$|\\[()\[\]]")
_FRACTION = re.compile(r"\\[dt]frac(?![a-zA-Z])")
_SINGLE = re.compile(r"(?<=[\^_])\{(\w)\}")
_MARK = re.compile(r"(?<![0-9])[.,;:?]|[.,;:?](?![0-9])|[\"“”`]")


def normal_form(text: str) -> str:
    """The normal form of a text, in time linear in its length."""
    text = unicodedata.normalize("NFKC", text).casefold().translate(_PLAIN)
    text = _FRACTION.sub(r"\\frac", text)
    for unread in (_SPACING, _DELIMITER):
        text = unread.sub("", text)
    return _MARK.sub("", _SINGLE.sub(r"\1", text))
