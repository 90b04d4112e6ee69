r"""The answer in a sentence: `Therefore $x > 5$ is the solution.` -> `x > 5`.

The answer of a text is the formula or number that it states at its end, or after "the answer is". A
text states what directly follows certain words (`is`, `equals`, `therefore`, a colon), if a unit, a
remark or the end of the sentence comes next. `twice 7`, `less than 7`, `minus 7`, `7 million` and
`7 or 8` do not state 7.
"""

import re

from rspo.rewards.rules import units

_FORMULA = re.compile(
    r"\$\$[^$]+\$\$"
    r"|\$(?:[^$\\\n]|\\[^\n])+\$"
    r"|\\\[(?:[^\\]|\\[^][])+\\\]"
    r"|\\\((?:[^\\\n]|\\[^()\n])+\\\)"
)
# A number after a word or a currency sign, with no arithmetic sign after it.
_NUMBER = re.compile(
    r"(?:(?<=[A-Za-z:])|(?<=[€£])|^)[ ]*"
    r"(?P<number>-?(?:[0-9]+(?:[.,][0-9]+)*|\.[0-9]+)(?:/[0-9]+)?(?:[ ]?\\?%|[ ]percent\b)?)"
    r"(?:(?:[ckm]?m|kg)(?:\^\{[23]\})?)?(?![ ]?[-+*/^=<>(\\_{0-9]|[A-Za-z]|[.,][0-9])",
    re.MULTILINE,
)
# The dollar sign of an amount does not start a formula: "$10 a pound".
_DOLLARS = re.compile(r"\$(?=[0-9][0-9,]*(?:\.[0-9]+)?(?:[ ][A-Za-z]{2}|[.,;]?(?:\s|$)))")
_WORD = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{2,}(?![A-Za-z}])")
_FORMULA_WORDS = (
    "or and sqrt sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log lg exp pi "
    "infinity inf oo gcd lcm max min mod np asin acos atan theta alpha beta gamma lambda"
)
_OF_FORMULAS = frozenset(_FORMULA_WORDS.split())
_ANSWER_IS = re.compile(r"\b(?:answer|result|solution)(?:[ ]is|:|[ ]=)[: ]*", re.IGNORECASE)
# What directly precedes a stated formula or number.
_STATES = re.compile(
    r"(?:^|[:=]|\b(?:is|are|was|be|equals|equal to|gives|get|obtain|that|therefore|thus|so|hence"
    r"|answer|result|solution|it's|that's)\b)[ \n]*(?:\b(?:exactly|approximately)[ ]*)?[€£]?$",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(r"\bFinal Answer:(?P<words>[A-Za-z ]+)$", re.IGNORECASE)
_CONCLUSION = re.compile(r"\b(?:therefore|thus|hence|so|finally|answer)\b", re.IGNORECASE)
_CONCLUSION_ITSELF = re.compile(r"\b(?:therefore|thus|hence|so)[, ]*$", re.IGNORECASE)
_IMPLIES = re.compile(r"\\(?:implies|Rightarrow|Longrightarrow)(?![a-zA-Z])|⇒")
_MARKED = re.compile(r"####[ ]*([^#\n]+)$")  # the answer after a worked solution, as in GSM8K
_LONGEST_STATEMENT = 60  # characters before the number that are searched for it
# Text after the number may change or withdraw it, up to the next clause.
_CLAUSE = re.compile(r"\b(?:that|which|who|where|when|because|since|as|for)\b", re.IGNORECASE)
_IS_THE_ANSWER = re.compile(r"\s*is (?:the|our) (?:final )?(?:answer|result|solution)\b")
_REMARK = re.compile(r"(?:[ckm]?m\^\{[23]\})?[^0-9!+*/^=<>\\{}|~#@&_]*")
_VERB = re.compile(r"\b(?:is|are|was|were|be)\b", re.IGNORECASE)
_OFFERS = re.compile(
    r"\b(?:either|neither|or|any|between|one of|not \w+ that|maybe|perhaps)\b", re.IGNORECASE
)
_DENIES = re.compile(
    r"\b(?:not|no|never|nor|isn't|can't|cannot|except|unless|wrong|incorrect|false|other than)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?]\s+(?=[A-Z])|\n\s*\n")
_AFTERWORD = re.compile(r"<\|[^|\n]{0,40}\|>\w*|I hope it is correct\.?")


def formula_in(text: str, only: bool = False) -> str:
    """The formula that a text states, or the text itself if it is not a sentence with a formula.

    Args:
        text: perhaps a sentence.
        only: whether to return the text itself if it has several formulas. A response argues
            before it concludes, but an answer with two formulas has two parts, unless it is a
            worked solution: several sentences, the last of which concludes.
    """
    if only and "####" in text and (marked := _MARKED.search(text)):
        return marked[1]
    if only and len(steps := _IMPLIES.split(text)) > 1 and all("=" in step for step in steps):
        return steps[-1].strip("$ ")
    sentence = _DOLLARS.sub(" ", _AFTERWORD.sub(" ", text))
    plain = _FORMULA.sub(lambda formula: re.sub(r"[^\n]", " ", formula[0]), sentence)
    formulas = [match.span() for match in _FORMULA.finditer(sentence)]
    if not _has_words(plain) or not (formulas or _is_sentence(plain)):
        return text
    if len(formulas) == 1 and not _has_words(plain[: formulas[0][0]]) and plain.count(" ") < 3:
        return text  # a formula with its unit: "$5$ cm"
    places = sorted(formulas + _numbers(plain))
    if not places or (only and len(places) > 1 and not _concludes(sentence, places)):
        return text
    start, end = _last_stated(plain, places)
    return sentence[start:end] if _is_stated(sentence, start, end) else text


def _concludes(sentence: str, places: list[tuple[int, int]]) -> bool:
    """Whether a text of several sentences ends with a conclusion from the others."""
    start = places[-1][0]
    begin = max((match.end() for match in _SENTENCE_END.finditer(sentence, 0, start)), default=0)
    alone = len(places) == 1 or places[-2][0] < begin
    return (
        begin > 0
        and (_CONCLUSION if alone else _CONCLUSION_ITSELF).search(sentence[begin:start]) is not None
    )


def _is_sentence(plain: str) -> bool:
    """It starts with words, and has three of them or a colon: `Answer: 7`, not `October 30`."""
    first = re.match(r"[^A-Za-z0-9]*([A-Za-z]{2,})(?![A-Za-z}])", plain)
    if first is None or first[1].lower() in _OF_FORMULAS - {"and", "or"}:
        return False
    return len(_WORD.findall(plain)) >= 3 or re.match(r"[A-Za-z ]+:", plain) is not None


def _has_words(text: str) -> bool:
    return any(word.lower() not in _OF_FORMULAS for word in _WORD.findall(text))


def _numbers(plain: str) -> list[tuple[int, int]]:
    """Positions of the numbers in lines that have words."""
    result, start = [], 0
    for line in plain.splitlines(keepends=True):
        if _has_words(line):
            places = (match.span("number") for match in _NUMBER.finditer(line))
            result += [(start + first, start + last) for first, last in places]
        start += len(line)
    return result


def _last_stated(plain: str, places: list[tuple[int, int]]) -> tuple[int, int]:
    """The position directly after the last "the answer is", or else the last position."""
    cues = [cue.end() for cue in _ANSWER_IS.finditer(plain)]
    after = [place for place in places if cues and 0 <= place[0] - cues[-1] < 3]
    return after[0] if after else places[-1]


def _is_stated(sentence: str, start: int, end: int) -> bool:
    """Whether the words around a position state that it is the answer, unchanged."""
    before = sentence[max(0, start - _LONGEST_STATEMENT) : start]
    if not (_STATES.search(before) or _is_conclusion(before, sentence[end:])):
        return False
    begin = max((match.end() for match in _SENTENCE_END.finditer(sentence, 0, start)), default=0)
    rest = _SENTENCE_END.search(sentence, end)
    after = sentence[end : rest.start() if rest else len(sentence)]
    if _OFFERS.search(sentence[begin:start] + after) or _DENIES.search(after):
        return False
    if _IS_THE_ANSWER.match(after):
        return True
    remark = _CLAUSE.split(after, maxsplit=1)[0]
    if _VERB.search(remark) or not _REMARK.fullmatch(remark):
        return False
    return not any(map(units.has_meaning, _WORD.findall(remark)))


def _is_conclusion(before: str, after: str) -> bool:
    """Whether a final answer is a sentence with one quantity: `Final Answer: it took 3 h`."""
    words = _CONCLUDES.search(before)
    unit = _WORD.match(after.lstrip())
    return (
        words is not None
        and unit is not None
        and units.is_known(unit[0])
        and not any(map(units.has_meaning, _WORD.findall(words["words"])))
    )


# --- multiple choice ------------------------------------------------------------------------------

_LEADING_CHOICE = re.compile(
    r"(?:\\text[a-z]*\s?\{|\\mathrm\s?\{|\\mathbf\s?\{|[$(*\s])*([A-J])(?![A-Za-z])[})$*]*"
)
_STATED_CHOICE = re.compile(
    r"\b(?i:answer|choice|option)\b(?P<before>[^.\n]{0,60}?(?:\b(?:is|be)\b|:)[^.\n]{0,40}?|[ ])"
    r"[\s($*{]*\b(?P<letter>[A-J])\b(?!')(?P<after>[^.\n]{0,20})"
)
_ALONE = re.compile(r"(?<![A-Za-z0-9\\_^{+*/=-])[B-HJ](?![A-Za-z0-9_^'+*/=-])")
_SEVERAL = re.compile(r"\b[A-J]\b[\s),]*(?:or|and|/)[\s(]*[A-J]\b")
_NEXT_LABEL = re.compile(r"[,;\n]\s*\(?[B-J]\s?[:=)]")  # A: 1, B: 2 chooses nothing
_ANOTHER = re.compile(r"[\s)$*}]*(?:or|and|,|/|(?=\())[\s($*{]*[A-J]\b")


def choice_in(text: str) -> str | None:
    """The letter that a text chooses: `C`, `(C)`, `C. Paris`, `the answer is C`; or None."""
    stated = list(_STATED_CHOICE.finditer(text))
    if stated:
        before, letter, after = stated[-1].group("before", "letter", "after")
        hedged = _DENIES.search(before) or _OFFERS.search(before) or _ANOTHER.match(after)
        return None if hedged else letter
    leading = _LEADING_CHOICE.match(text)
    if leading is None:
        return _only_letter(text)
    if _NEXT_LABEL.search(text, leading.end()):
        return None
    bracketed, rest = leading[0].endswith(")"), text[leading.end() :]
    # "A cat" and "I think" choose nothing, "A Peter" does.
    named = re.match(r"\s+[A-Z][a-z]{2}" if leading[1] in "AI" else r"\s+[A-Za-z]{3}", rest)
    if not rest.strip(" .$}") or bracketed or rest[0] in ".:" or named:
        return None if _ANOTHER.match(rest) else leading[1]
    return _only_letter(text)


def _only_letter(text: str) -> str | None:
    """The only isolated capital letter in a sentence: `I would go for C`."""
    letters = set(_ALONE.findall(text))
    clear = len(_WORD.findall(text)) >= 3 and not (_DENIES.search(text) or _SEVERAL.search(text))
    return letters.pop() if clear and len(letters) == 1 else None
