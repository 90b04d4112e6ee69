"""Extension of griffe, which reads the docstrings that docs/api.md shows.

It knows the short forms of sections that this project uses: `Returns: text` and `Raises: text` on
one line become paragraphs, and lines `name: text` about the attributes of a class become its table
of attributes. Formulas become MathML.
"""

import re
import sys
from pathlib import Path
from typing import Any

import griffe

# MkDocs loads a hook by its path, so modules beside it cannot be imported otherwise.
sys.path.append(str(Path(__file__).parent))
from site_formulas import typeset

# The name of a section with its text on the same line, which griffe does not know as a section.
_INLINE = re.compile(r"^(Returns|Raises): +(?=\S)", re.MULTILINE)


class ShortSections(griffe.Extension):
    """Replaces each docstring by the form that griffe understands."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of a module, a class or a function; griffe calls this for each."""
        if obj.docstring is None:
            return
        text = typeset(obj.docstring.value)
        paragraphs = _INLINE.sub(r"**\1:** ", text).split("\n\n")
        for i, paragraph in enumerate(paragraphs):
            name, colon, _ = paragraph.partition(":")
            # A paragraph that begins with the name of an attribute.
            if obj.is_class and colon and name in obj.members:
                paragraphs[i] = "Attributes:\n" + re.sub("^", "    ", paragraph, flags=re.MULTILINE)
        obj.docstring.value = "\n\n".join(paragraphs)
