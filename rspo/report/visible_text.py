"""Make the text of a model safe to read."""

import unicodedata

# C: control, format (writing direction, zero width), surrogate, private, unassigned. Zl, Zp: two
# separators that browsers and editors treat differently.
_INVISIBLE = ("C", "Zl", "Zp")


def visible(text: str) -> str:
    """Replace every character that is invisible or moves others by its name; keep line feeds.

    Does not escape HTML: the template does.
    """
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character == "\n" or not unicodedata.category(character).startswith(_INVISIBLE):
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's symbols for control characters
    return f"\u27e8U+{code:04X}\u27e9"
