"""Extension of griffe, which reads the docstrings of docs/api.md: our short forms of sections.

`Returns: text` and `Raises: text` on one line become paragraphs, lines `name: text` about the
attributes of a class become its table of attributes, and formulas become MathML.
"""

import re
import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.append(str(Path(__file__).parent))
from site_formulas import typeset

_INLINE = re.compile(r"^(Returns|Raises): +(?=\S)", re.MULTILINE)


class ShortSections(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is None:
            return
        text = typeset(obj.docstring.value)
        paragraphs = _INLINE.sub(r"**\1:** ", text).split("\n\n")
        for i, paragraph in enumerate(paragraphs):
            name, colon, _ = paragraph.partition(":")
            if obj.is_class and colon and name in obj.members:
                paragraphs[i] = "Attributes:\n" + re.sub("^", "    ", paragraph, flags=re.MULTILINE)
        obj.docstring.value = "\n\n".join(paragraphs)
