"""What a set of problems says, as one SHA-256: the same from the hub and from a copy of it.

Hashed are the problems in order, each with what its answer column holds: what was published, not
what we read out of it, and no ids, sources or revisions.
Differences that no reader would see are evened out first: the form of Unicode (NFC), runs of
whitespace, whitespace at the ends, and a number column's `.0` (142.0 for 142).

The hash is that of one line for each problem, a JSON list of the text and its answers in ASCII:

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
        line = [_evened(text), *(_without_point(_evened(answer)) for answer in answers)]
        digest.update(json.dumps(line).encode() + b"\n")
    return digest.hexdigest()


def _evened(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _without_point(answer: str) -> str:
    return answer.split(".")[0] if _WHOLE.fullmatch(answer) else answer
