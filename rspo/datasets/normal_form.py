r"""When two texts are copies of one problem: equal but for how they are typed.

A text's normal form leaves out what copying changes and mathematics does not read:

- the form of Unicode (NFKC), upper and lower case, curly quotes and long dashes for plain ones;
- whitespace, LaTeX's own spacing (`\,`, `\quad`, `~`, `\\`) and sizes (`\left`, `\dfrac`);
- math delimiters (`$`, `\(`, `\[`) and braces around one raised or lowered sign (`x^{2}`);
- the marks of sentences (`. , ; : ?` and double quotes), unless they stand between two digits.

Every other sign stays: x+1 is not x-1, and f'(1) is not f(1).
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
    """What copies of a problem have in common; time is linear in the length of the text."""
    text = unicodedata.normalize("NFKC", text).casefold().translate(_PLAIN)
    text = _FRACTION.sub(r"\\frac", text)
    for unread in (_SPACING, _DELIMITER):
        text = unread.sub("", text)
    return _MARK.sub("", _SINGLE.sub(r"\1", text))
