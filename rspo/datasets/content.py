"""SHA-256 of the content of a data set; the same for the hub and for a copy of it.

The hash is that of one line per problem: an ASCII JSON list of its text and published answers.
Unicode (NFC), whitespace, and the `.0` of a number column (142.0 for 142) are normalized first:

    ["What is $1+1$?", "2"]
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence

_WHOLE = re.compile(r"-?[0-9]+\.0+")


def content_sha256(problems: Iterable[tuple[str, Sequence[str]]]) -> str:
    """SHA-256, in hex, of (text, answers) pairs in order."""
    digest = hashlib.sha256()
    for text, answers in problems:
        line = [_normalized(text), *(_without_point(_normalized(answer)) for answer in answers)]
        digest.update(json.dumps(line).encode() + b"\n")
    return digest.hexdigest()


def _normalized(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _without_point(answer: str) -> str:
    return answer.split(".")[0] if _WHOLE.fullmatch(answer) else answer
