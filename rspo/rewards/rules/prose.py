r"""Finds the answer in a sentence: `Therefore $x > 5$ is the solution.` -> `x > 5`.

The answer of a text is the formula or number that it states at its end, or after "the answer is". A
text states what directly follows certain words (`is`, `equals`, `therefore`, a colon), if a unit, a
remark or the end of the sentence comes next. `twice 7`, `less than 7`, `minus 7`, `7 million` and
`7 or 8` do not state 7. The last part of this file reads the letters of multiple choice.
"""

import re
from dataclasses import dataclass

from rspo.rewards.rules import units

# A formula: $$...$$, $...$, \[...\] or \(...\).
_FORMULA = re.compile(
    r"\$\$[^$]+\$\$"
    r"|\$(?:[^$\\\n]|\\[^\n])+\$"
    r"|\\\[(?:[^\\]|\\[^][])+\\\]"
    r"|\\\((?:[^\\\n]|\\[^()\n])+\\\)"
)
# A number after a word, a colon or a currency sign, or at the beginning of a line. It may be a
# fraction or percentage and have a unit of length or mass; no arithmetic sign or letter follows.
_NUMBER = re.compile(
    r"(?:(?<=[A-Za-z:])|(?<=[€£])|^)[ ]*"
    r"(?P<number>-?(?:[0-9]+(?:[.,][0-9]+)*|\.[0-9]+)(?:/[0-9]+)?(?:[ ]?\\?%|[ ]percent\b)?)"
    r"(?:(?:[ckm]?m|kg)(?:\^\{[23]\})?)?(?![ ]?[-+*/^=<>(\\_{0-9]|[A-Za-z]|[.,][0-9])",
    re.MULTILINE,
)
# The dollar sign of an amount does not start a formula: "$10 a pound".
_DOLLARS = re.compile(r"\$(?=[0-9][0-9,]*(?:\.[0-9]+)?(?:[ ][A-Za-z]{2}|[.,;]?(?:\s|$)))")
# Two letters or more that are not a command, such as \sin, or a group in braces, such as {cm}.
_WORD = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{2,}(?![A-Za-z}])")
# Words that formulas contain too, so they do not make a text a sentence.
_FORMULA_WORDS = (
    "or and sqrt sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log lg exp pi "
    "infinity inf oo gcd lcm max min mod np asin acos atan theta alpha beta gamma lambda"
)
_OF_FORMULAS = frozenset(_FORMULA_WORDS.split())
# "the answer is", up to what follows it.
_ANSWER_IS = re.compile(r"\b(?:answer|result|solution)(?:[ ]is|:|[ ]=)[: ]*", re.IGNORECASE)
# The end of a text that directly precedes a stated formula or number.
_STATES = re.compile(
    r"(?:^|[:=]|\b(?:is|are|was|be|equals|equal to|gives|get|obtain|that|therefore|thus|so|hence"
    r"|answer|result|solution|it's|that's)\b)[ \n]*(?:\b(?:exactly|approximately)[ ]*)?[€£]?$",
    re.IGNORECASE,
)
# The end of a text before a number in a final answer in words, see `_is_conclusion`.
_CONCLUDES = re.compile(r"\bFinal Answer:(?P<words>[A-Za-z ]+)$", re.IGNORECASE)
# A word that begins a conclusion anywhere before a formula, and such a word directly before it.
_CONCLUSION = re.compile(r"\b(?:therefore|thus|hence|so|finally|answer)\b", re.IGNORECASE)
_CONCLUSION_ITSELF = re.compile(r"\b(?:therefore|thus|hence|so)[, ]*$", re.IGNORECASE)
# An arrow between two steps of a calculation.
_IMPLIES = re.compile(r"\\(?:implies|Rightarrow|Longrightarrow)(?![a-zA-Z])|⇒")
# A sign of a currency directly before a number, and the words after a number.
_CURRENCY = re.compile(r"[$€£]$")
_WORDS_AFTER = re.compile(r"[ ]*(?P<words>[A-Za-z]+(?:[ ][A-Za-z]+)*)(?P<power>\^\{?[23]\}?)?")
_UNCERTAIN = re.compile(
    r"[ $},]*(?:\?|\.{2}|\.[ ]\.[ ]\.)"
)  # `7?`, `7...`, `A?` leave the answer open
_WORD_OF_UNIT = re.compile(r"[A-Za-z]+")
_MARKED = re.compile(r"####[ ]*([^#\n]+)$")  # the answer after a worked solution, as in GSM8K
_LONGEST_STATEMENT = 60  # characters before a number that are searched for words that state it
# A remark after the number may change its value. Only the text up to the next clause, which begins
# with one of these words, is a remark. `_OFFERS` and `_DENIES` are searched for in the whole
# sentence after the number.
_CLAUSE = re.compile(r"\b(?:that|which|who|where|when|because|since|as|for)\b", re.IGNORECASE)
_IS_THE_ANSWER = re.compile(r"\s*is (?:the|our) (?:final )?(?:answer|result|solution)\b")
# A remark or unit after a number: text without digits and signs of arithmetic, except cm^{2}.
_REMARK = re.compile(r"(?:[ckm]?m\^\{[23]\})?[^0-9!+*/^=<>\\{}|~#@&_]*")
_VERB = re.compile(r"\b(?:is|are|was|were|be)\b", re.IGNORECASE)
# Words that offer several answers, or leave it uncertain which one is meant.
_OFFERS = re.compile(
    r"\b(?:either|neither|or|any|between|one of|not \w+ that|maybe|perhaps)\b|\?",
    re.IGNORECASE,
)
# Words that withdraw an answer.
_DENIES = re.compile(
    r"\b(?:not|no|never|nor|isn't|can't|cannot|except|unless|wrong|incorrect|false|other than)\b",
    re.IGNORECASE,
)
# The end of a sentence before a capital letter, or an empty line.
_SENTENCE_END = re.compile(r"[.!?]\s+(?=[A-Z])|\n\s*\n")
# What models add after an answer: a control token such as <|im_end|>, or a phrase of few-shot
# prompts for MATH.
_AFTERWORD = re.compile(r"<\|[^|\n]{0,40}\|>\w*|I hope it is correct\.?")


def formula_in(text: str, only: bool = False) -> str:
    r"""The formula that a text states, or the text itself if it is not a sentence with a formula.

    Args:
        text: perhaps a sentence.
        only: whether the text is an accepted answer of a data set, not a response. A response
            argues before it concludes, so its last formula counts. An answer with several formulas
            has several parts and is returned whole, unless it is a worked solution: it ends with
            `#### 7`, consists of equations joined by \implies, or has several sentences, the last
            of which concludes.
    """
    if only:
        result = _result_of_solution(text)
        if result is not None:
            return result
        text = text.rstrip().removesuffix("^")  # what some data sets leave of 90^\circ
    with_dollars = _AFTERWORD.sub(" ", text)
    sentence = _DOLLARS.sub(" ", with_dollars)
    # The sentence with spaces in place of its formulas, so that positions are the same. Line breaks
    # stay, because numbers are looked for line by line.
    plain = _FORMULA.sub(lambda formula: re.sub(r"[^\n]", " ", formula[0]), sentence)
    formulas = [match.span() for match in _FORMULA.finditer(sentence)]
    if not _has_words(plain) or not (formulas or _is_sentence(plain)):  # no sentence
        return text
    # Start and end of each formula and number.
    places = sorted(formulas + _numbers(plain))
    if not places or (only and len(places) > 1 and not _concludes(sentence, places)):
        return text
    start, end = _last_stated(plain, places)
    unit, end_of_unit = _unit_after(sentence, end)
    if not _is_stated(sentence, start, end) or _UNCERTAIN.match(sentence, end_of_unit):
        return text
    # Dollar signs of amounts were removed, but stand at the same place in the text before.
    currency = _CURRENCY.search(with_dollars[:start])
    return (currency[0] if currency else "") + sentence[start:end] + unit


def _unit_after(sentence: str, end: int) -> tuple[str, int]:
    r"""The unit after a number as running text, such as ` \text{cm}^2`, and where it ends.

    Args:
        end: where the number ends.

    Returns: an empty unit if there is none.
    """
    following = _WORDS_AFTER.match(sentence, end)
    if following is None:
        return "", end
    unit: list[str] = []
    words = list(_WORD_OF_UNIT.finditer(sentence, end, following.end("words")))
    end_of_unit = end
    for word in words:
        preposition = word[0] == "in" and word is not words[-1]  # 5 in total
        if preposition or not (units.is_known(word[0]) or word[0] in units.IN_UNITS):
            break
        unit.append(word[0])
        end_of_unit = word.end()
    if not any(map(units.is_known, unit)):
        return "", end
    power = ""
    if len(unit) == len(words) and following["power"]:
        power = following["power"]
        end_of_unit = following.end()
    return rf" \text{{{' '.join(unit)}}}{power}", end_of_unit


def _result_of_solution(text: str) -> str | None:
    r"""The end of `... #### 7`, or of equations joined by \implies; None for other texts."""
    if "####" in text:
        marked = _MARKED.search(text)
        if marked is not None:
            return marked[1]
    steps = _IMPLIES.split(text)
    if len(steps) > 1 and all("=" in step for step in steps):
        return steps[-1].strip("$ ")
    return None


def _concludes(sentence: str, places: list[tuple[int, int]]) -> bool:
    """Whether a text of several sentences ends with a conclusion.

    If the last sentence has several formulas, the last one must follow `therefore` directly.
    """
    start = places[-1][0]
    begin = _start_of_sentence(sentence, start)
    if begin == 0:
        return False
    # Whether the formula is the only one of its sentence.
    alone = len(places) == 1 or places[-2][0] < begin
    conclusion = _CONCLUSION if alone else _CONCLUSION_ITSELF
    return conclusion.search(sentence[begin:start]) is not None


def _start_of_sentence(text: str, position: int) -> int:
    """Where the sentence around a position starts."""
    start = 0
    for end in _SENTENCE_END.finditer(text, 0, position):
        start = end.end()
    return start


def _is_sentence(plain: str) -> bool:
    """Whether a text starts with a word, and has at least three words or begins with words and `:`.

    `Answer: 7` is a sentence; `October 30` is not.
    """
    first = re.match(r"[^A-Za-z0-9]*([A-Za-z]{2,})(?![A-Za-z}])", plain)
    if first is None or first[1].lower() in _OF_FORMULAS - {"and", "or"}:
        return False
    return len(_WORD.findall(plain)) >= 3 or re.match(r"[A-Za-z ]+:", plain) is not None


def _has_words(text: str) -> bool:
    """Whether a text has a word that formulas do not contain."""
    return any(word.lower() not in _OF_FORMULAS for word in _WORD.findall(text))


def _numbers(plain: str) -> list[tuple[int, int]]:
    """Positions of the numbers in lines that have words."""
    places = []
    start = 0
    for line in plain.splitlines(keepends=True):
        if _has_words(line):
            for number in _NUMBER.finditer(line):
                first, last = number.span("number")
                places.append((start + first, start + last))
        start += len(line)
    return places


def _last_stated(plain: str, places: list[tuple[int, int]]) -> tuple[int, int]:
    """The place directly after the last "the answer is", or else the last place.

    Args:
        plain: the sentence without its formulas.
        places: start and end of each formula and number, in order.
    """
    ends = [announcement.end() for announcement in _ANSWER_IS.finditer(plain)]
    if ends:
        for place in places:
            # At most two characters may be between, such as the asterisks of bold text.
            if 0 <= place[0] - ends[-1] < 3:
                return place
    return places[-1]


def _is_stated(sentence: str, start: int, end: int) -> bool:
    """Whether the words around a place state that it is the answer, without changing it."""
    before = sentence[max(0, start - _LONGEST_STATEMENT) : start]
    if not (_STATES.search(before) or _is_conclusion(before, sentence[end:])):
        return False
    # The rest of the sentence must not offer another answer or withdraw this one.
    begin = _start_of_sentence(sentence, start)
    sentence_end = _SENTENCE_END.search(sentence, end)
    after = sentence[end : sentence_end.start() + 1] if sentence_end else sentence[end:]
    if _OFFERS.search(sentence[begin:start] + after) or _DENIES.search(after):
        return False
    if _IS_THE_ANSWER.match(after):
        return True
    remark = _CLAUSE.split(after, maxsplit=1)[0]
    if _VERB.search(remark) or not _REMARK.fullmatch(remark):
        return False
    return not any(map(units.has_meaning, _WORD.findall(remark)))


def _is_conclusion(before: str, after: str) -> bool:
    """Whether the number between two texts follows words after `Final Answer:`, and has a unit.

    `Final Answer: it took 3 hours` is an example.
    """
    final = _CONCLUDES.search(before)
    unit = _WORD.match(after.lstrip())
    if final is None or unit is None or not units.is_known(unit[0]):
        return False
    return not any(map(units.has_meaning, _WORD.findall(final["words"])))


# --- multiple choice ------------------------------------------------------------------------------

# A letter at the beginning, perhaps in brackets, bold or \text{...}. Group 1 is the letter.
_LEADING_CHOICE = re.compile(
    r"(?:\\text[a-z]*\s?\{|\\mathrm\s?\{|\\mathbf\s?\{|[$(*\s])*([A-J])(?![A-Za-z])[})$*]*"
)
# "the answer is C", "option B": the letter, and the words before and after it.
_STATED_CHOICE = re.compile(
    r"\b(?i:answer|choice|option)\b(?P<before>[^.\n]{0,60}?(?:\b(?:is|be)\b|:)[^.\n]{0,40}?|[ ])"
    r"[\s($*{]*\b(?P<letter>[A-J])\b(?!')(?P<after>[^.\n]{0,20})"
)
# A letter that is not part of a word or formula. A and I are left out, because they are words too.
_ALONE = re.compile(r"(?<![A-Za-z0-9\\_^{+*/=-])[B-HJ](?![A-Za-z0-9_^'+*/=-])")
_SEVERAL = re.compile(r"\b[A-J]\b[\s),]*(?:or|and|/)[\s(]*[A-J]\b")  # B or C
# A: 1, B: 2 and (A) 1 (B) 2 choose nothing.
_NEXT_LABEL = re.compile(r"[,;\n]\s*\(?[B-J]\s?[:=)]|\([B-J]\)[ ]?[$\\0-9]")
# The label of an option before its value: (C) 42, C. 42, \textbf{(C)}\ 42, \text{(C) 42}. The
# braces of a font may also end after the value.
_FONT = r"\\(?:text(?:rm|bf|it|sf|tt|up|normal)?|math(?:rm|bf|sf|it))[ ]?\{\s*"
_SPACE = r"(?:\s|\\[ ,;:!]|\\q?quad(?![a-zA-Z])|~)*"
_OPTION = re.compile(
    rf"(?:[\s$*]|\\\()*(?P<font>{_FONT})?(?:\((?P<letter>[A-J])\)|(?P<bare>[A-J])[).:](?=[\s\\}}*]))"
    rf"(?:\*\*)?(?P<space>{_SPACE})\}}?{_SPACE}"
)
# What follows a letter in brackets that is part of a formula: (A)x, (A) + 5, (A)\sqrt{2}, (A) \cup.
_FACTOR = re.compile(
    r"[-+*/^=<>!_(]|[A-Za-z](?![A-Za-z]{2})|\\(?!q?quad(?![a-zA-Z]))[a-zA-Z]|\s+[-+*/=<>]\s"
    r"|\s+\\(?:cup|cap|setminus|times|cdot|pm)(?![a-zA-Z])"
)
_LABEL_WITHIN = re.compile(r"\([A-J]\)|\b[A-J][).:]\s")  # the label of another option
_NAMED = re.compile(r"[\s$]*([A-J])\s*=")  # A = 42 names the value as (A) 42 does
_WITHDRAWN = re.compile(r"\bis (?:wrong|incorrect|false|not (?:the|correct|right|true))\b")
# A second letter or value directly after the first letter: "or 7", "and \text{(C)}", ", C", "(C)".
_ANOTHER = re.compile(rf"[\s)$*}}]*(?:(?:or|and)\b|(?:,|/|(?=\())(?:{_FONT}|[\s($*{{])*[A-J]\b)")


def choice_in(text: str, only: bool = False) -> str | None:
    """The letter that a text chooses: `C`, `(C)`, `C. Paris`, `the answer is C`; or None.

    Args:
        only: whether the text is an accepted answer of a data set, not a response. A letter within
            a sentence is then a name: `Room B costs 5 dollars` is no choice.
    """
    if text.rstrip(" .$}").endswith("?"):
        return None
    stated = list(_STATED_CHOICE.finditer(text))
    if stated:
        before, letter, after = stated[-1].group("before", "letter", "after")
        hedged = _DENIES.search(before) or _OFFERS.search(before) or _ANOTHER.match(after)
        hedged = hedged or _UNCERTAIN.match(after)
        return None if hedged else letter
    leading = _LEADING_CHOICE.match(text)
    if leading is None:
        return None if only else _only_letter(text)
    if _NEXT_LABEL.search(text, leading.end()) or _WITHDRAWN.search(text, leading.end()):
        return None
    letter = leading[1]
    rest = text[leading.end() :]
    if _UNCERTAIN.match(rest):
        return None
    alone = not rest.strip(" .$}")
    if alone or _follows_letter(leading, rest) or option_in(text) is not None:
        return None if _ANOTHER.match(rest) else letter
    return None if only else _only_letter(text)


def _follows_letter(leading: re.Match[str], rest: str) -> bool:
    """Whether a text after a letter is its option: `(C) 42`, `C. Paris`, `C: 42`, `C Paris`."""
    letter = leading[1]
    if leading[0].endswith(")"):
        return _FACTOR.match(rest) is None
    if rest[0] == ":":  # A:B is a ratio
        return rest[1:2] == "" or rest[1].isspace()
    return rest[0] == "." or _begins_with_name(rest, letter)


@dataclass(frozen=True)
class Option:
    """An option of multiple choice: its letter and its value."""

    letter: str
    value: str

    @property
    def argues(self) -> bool:
        """Whether words follow that may argue for the letter, instead of its value."""
        return len(_WORD.findall(self.value)) > 2


def option_in(text: str) -> Option | None:
    r"""The option that a text gives: C and 42 for `\textbf{(C)}\ 42` and `C. 42`.

    Returns: None if there is no value, no such label, or another label too.
    """
    label = _OPTION.match(text)
    if label is None or _LABEL_WITHIN.search(text, label.end()):
        return None
    value = text[label.end() :]
    if not label["font"]:
        after_letter = text[label.start("space") :]
        if _FACTOR.match(after_letter):  # (A)x is a product
            return None
    if value.count("}") > value.count("{"):  # the end of \text{(C) 42}
        before, _, after = value.rpartition("}")
        value = before + after
    if not value.strip(" $.,"):
        return None
    return Option(label["letter"] or label["bare"], value)


def letter_of(text: str) -> str | None:
    """The letter of an option or of a named value: C for `(C) 42` and `C = 42`; None without."""
    option = option_in(text)
    if option is not None:
        return option.letter
    named = _NAMED.match(text)
    return named[1] if named is not None else None


def _begins_with_name(rest: str, letter: str) -> bool:
    """Whether the text after a letter names the choice: `B Paris`, `A Peter`.

    "A cat" and "I think" choose nothing, so after these letters the name needs a capital.
    """
    name = r"\s+[A-Z][a-z]{2}" if letter in "AI" else r"\s+[A-Za-z]{3}"
    return re.match(name, rest) is not None


def _only_letter(text: str) -> str | None:
    """The only isolated capital letter in a sentence: `I would go for C`; None without one."""
    letters = set(_ALONE.findall(text))
    if len(letters) != 1 or len(_WORD.findall(text)) < 3:
        return None
    if _DENIES.search(text) or _SEVERAL.search(text):
        return None
    return letters.pop()
