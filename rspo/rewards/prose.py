r"""The answer in a sentence: `Therefore $x > 5$ is the solution.` -> `x > 5`.

A sentence counts as its last formula or number, or as the one right behind "the answer is". A
sentence that hedges (not, either, one of ...) has no answer: whoever lists everything says
nothing.
"""

import re

_FORMULA = re.compile(
    r"\$\$([^$]+)\$\$|\$((?:[^$\\\n]|\\.)+)\$|\\\[((?:[^\\]|\\[^\]])+)\\\]|\\\(((?:[^\\\n]|\\[^)\n])+)\\\)"
)
_NUMBER = re.compile(r"(?<![0-9A-Za-z.,_\\{^])-?[0-9]+(?:[.,][0-9]+)*(?:/[0-9]+)?(?:\s*(?:\\?%|percent\b))?")
_CUE = re.compile(r"\b(?:answer|result|solution)(?: is|:| =)[ :]*", re.IGNORECASE)
_WORD = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{2,}(?![A-Za-z}])")
_NOT_PROSE = set(
    "or and sqrt sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log lg exp pi "
    "infinity inf oo gcd lcm max min mod np asin acos atan theta alpha beta gamma lambda".split()
)
_HEDGES = re.compile(
    r"\b(?:not|isn't|no|never|neither|nor|either|or|one of|any|anything|between|except|wrong|"
    r"incorrect|maybe|perhaps|possibly|cannot|can't|all|every|everything|unless|other than)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?]\s+(?=[A-Z])|\n\s*\n")
_AFTERWORD = re.compile(r"<\|[^|]*\|>\w*|I hope it is correct\.?", re.IGNORECASE)


def formula_in(text: str) -> str:
    """The formula that a text states; the text itself if it is no sentence around a formula."""
    found = _FORMULA.search(text)
    words = {word.lower() for word in _WORD.findall(_FORMULA.sub(" ", text))} - _NOT_PROSE
    if not words:
        return text
    text = _AFTERWORD.sub(" ", text)
    places = [(match.start(), match.end(), match[0]) for match in _FORMULA.finditer(text)]
    blank = _FORMULA.sub(lambda match: " " * len(match[0]), text)
    places += [
        (match.start(), match.end(), match[0])
        for match in _NUMBER.finditer(blank)
        if _has_word(_line(blank, match.start()))
    ]
    places.sort()
    if not places or not (found or _WORD.search(blank, 0, places[-1][0])):
        return text
    cues = [cue.end() for cue in _CUE.finditer(blank)]
    behind = [place for place in places if cues and place[0] - cues[-1] in range(3)]
    start, end, stated = behind[0] if behind else places[-1]
    if _HEDGES.search(_sentence(blank, start, end)):
        return text
    return stated


def _line(text: str, place: int) -> str:
    start = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    return text[start : end if end >= 0 else len(text)]


def _has_word(text: str) -> bool:
    return _WORD.search(text) is not None


def _sentence(text: str, start: int, end: int) -> str:
    """The sentence around a place."""
    before = [match.end() for match in _SENTENCE_END.finditer(text, 0, start)]
    after = _SENTENCE_END.search(text, end)
    return text[before[-1] if before else 0 : after.start() if after else len(text)]


# --- multiple choice ------------------------------------------------------------------------------

_CHOICE = re.compile(
    r"(?:\\text[a-z]*\s*\{\s*|\\mathr?[bf]*[m]?\s*\{|[$({*]|\s)*([A-J])\b(?![-+*/^=_'])"
)
_STATED_CHOICE = re.compile(
    r"\b(?:answer|choice|option)\b[^.\n]{0,60}?(?:\bis\b|:)[^.\n]{0,40}?[\s($*{]([A-J])(?![A-Za-z'])"
)


def choice_in(text: str) -> str | None:
    """The letter that a text chooses: `C`, `(C)`, `C. Paris`, `the answer is C`."""
    stated = [match[1] for match in _STATED_CHOICE.finditer(text)]
    if stated:
        return stated[-1]
    leading = _CHOICE.match(text)
    if leading is None:
        return None
    rest = text[leading.end() :].lstrip("}$)* ")
    if not rest.strip(" .,:"):
        return leading[1]
    if re.match(r"[.:]|[a-zA-Z]{3,}", rest) or text[leading.end() :].startswith(")"):
        return leading[1]
    return None
