"""What a model wrote, made safe to look at."""

import unicodedata

# C: control, format (writing direction, zero width), surrogate, private, unassigned; Zl, Zp: the
# two separators that browsers and editors treat differently.
_HIDDEN = ("C", "Zl", "Zp")


def visible(text: str) -> str:
    """The text with every character that shows nothing, or moves others, spelled out.

    Line feeds stay. HTML is the template's business, which escapes all that it prints.
    """
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character == "\n" or not unicodedata.category(character).startswith(_HIDDEN):
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's own pictures of them
    return f"\u27e8U+{code:04X}\u27e9"
