r"""The places other than a box at which a response may state its answer.

Each function returns the answer at one place as the response writes it, perhaps in a box, or an
empty text if there is no answer at this place. Words that withdraw the answer or offer another one,
as in `not 7` and `7 or 8`, stay in the returned text, so that the verifier refuses it, or the
function returns an empty text.
"""

import re

LONGEST_GAP = 40  # characters between two answers that may be alternatives
_LONGEST_BEGINNING = 80  # characters before an answer that are searched

# Words that offer an answer beside another one, if they begin or end the text between the two.
_OR_WORDS = frozenset(
    ("or", "ou", "oder", "или", "alternatively", "perhaps", "maybe", "possibly", "vs", "versus")
)
_OR_SIGN = re.compile(r"或|∨|\\(?:l?or|vee)(?![a-zA-Z])")
# Signs that combine two answers, if nothing else stands between them.
_COMBINES = re.compile(r"[\s$()]*(?:[/|+×÷±]|\\(?:mid|pm|times|cdot))[\s$()]*")
_COMMAND = re.compile(r"\\[a-zA-Z]+")
_LETTERS = re.compile(r"[^\W\d_]+")
# A further answer after the end of a sentence, line or tag.
_ALTERNATIVE = re.compile(
    r"[\s.,;*$]{0,9}(?:\b(?:or|alternatively|perhaps|maybe|possibly)\b|或|∨|\\(?:l?or|vee)(?![a-zA-Z]))"
    r"(?P<other>[^\n]{0,200})",
    re.IGNORECASE,
)

# The answer before these words may be withdrawn.
_WITHDRAWAL = re.compile(
    r"[\s.,;*$]{0,9}\b(?:no|wait|but wait|hmm|actually"
    r"|(?:this|that|it) is (?:wrong|incorrect|false))\b",
    re.IGNORECASE,
)

# A line that begins a further problem: `Problem:`, `Question 2:`, `Q:`.
_NEXT_PROBLEM = re.compile(
    r"^[#*_ \t]{0,8}(?:problem|question|q)[ ]?[0-9]{0,4}[*_ \t]{0,4}[:：]",
    re.IGNORECASE | re.MULTILINE,
)

# --- after words, in a tag, after #### ------------------------------------------------------------

_DECORATION = r"[*_} \t]{0,6}"  # of bold type, also that of \textbf{Answer:} 34
_ADVERBS = r"(?:(?:therefore|thus|hence|then|clearly|simply|just|indeed|now|obviously)\b[, ]{0,3})?"
# `Answer: 34`, `**Final Answer**` as a heading, `Answer - 34`, `The answer is 34`.
_ANSWER = re.compile(
    rf"(?:\banswer\b{_DECORATION}(?:is\b{_DECORATION}{_ADVERBS}[:：]?|[:：]|[ ][-–—][ ])"
    r"|答案(?:是|为|為)?[:：]?"
    rf"|^[#*_ \t]{{0,8}}(?:final[ ])?answer{_DECORATION}$)"
    rf"{_DECORATION}",
    re.IGNORECASE | re.MULTILINE,
)
_MINERVA = re.compile(r"final answer is:?[ \t]{0,6}", re.IGNORECASE)
_TAG = re.compile(r"</?answer>", re.IGNORECASE)
_HASHES = re.compile(r"(?<!#)####(?!#)[ \t]*(?P<answer>[^#\n]*)")  # GSM8K
_HEADING = re.compile(r"[*_]{0,3}(?:[0-9]{1,3}[.)][ \t])?[*_]{0,3}[a-zA-Z]{2}")
# `I hope this answer is correct` states no answer.
_PRAISE = re.compile(r"(?:correct|right|verified|valid|confirmed|true)\b", re.IGNORECASE)
_SENTENCE_BOUNDARY = re.compile(r"[.!?;。！？\n]")
# A sentence or a clause with these words before an answer denies or supposes it.
_DENIED = re.compile(
    r"(?:\bnot|n['’]t)[ ](?:think|believe|say|mean|equal)|\b(?:wrong|incorrect|false|doubt)\b"
    r"|\b(?:unlikely|nobody|or equal)\b|≠|\\neq?\b|[错误]",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\b(?:not|never|no|nor|neither|cannot|if|whether|unless|suppose|assume|might|may|could|guess)\b"
    r"|n['’]t\b|[不若非]|如果",
    re.IGNORECASE,
)
_DISPLAYED = re.compile(
    r"\s{0,4}(?:\$\$(?P<dollars>[^$]{1,500})\$\$|\\\[(?P<brackets>.{1,500}?)\\\])", re.DOTALL
)
_LINE = re.compile(r"\n{0,2}(?P<answer>[^\n]*)")
# A point within or after points ends no sentence, and neither does that of an abbreviation.
_SENTENCE_END = re.compile(r"(?<=[^.])(?<!\b[DM]r)(?<!\b(?:No|Rs|St|vs|Eq))\.(?=\s|$|\*)|。")
_REASON = re.compile(r",?[ ](?:because|since|I hope)\b", re.IGNORECASE)

# --- the last number ------------------------------------------------------------------------------

_CONTROL = re.compile(r"<\|[^|\n]{0,40}\|>")  # <|im_end|>

# A number with a sign, a fraction or a percent sign.
_NUMBER = re.compile(
    r"-?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)"
    r"(?:/[0-9]+)?(?:\\?%)?"
)
# What opens a formula, bold type or an amount of money before a number, and what closes it.
_OPENINGS = re.compile(r"(?:\s|\*\*|\\?\$|\\[(\[]|[£€¥₹])+$")
_CLOSINGS = re.compile(r"(?:\*\*|\$|\\[)\]])+")
_COMPARISON = re.compile(r"(?:[<>!≠:~=\\/+*-]|\\[a-zA-Z]+)[ ]{0,3}=$")
_ABBREVIATION = re.compile(r"(?:\b(?:[a-zA-Z]{1,3}|approx)|[0-9.])\.$")
_LAST_WORDS = re.compile(r"(?<![\\\w])(?P<words>(?:[a-zA-Z]+[ ])?(?P<last>[a-zA-Z]{2,}))$")
# Next to these words, a number is not alone, or not the answer.
_BAD_BEFORE = re.compile(
    r"or|and|not|least|most|than|negative|minus|plus|times|over|under|above|below|between|about"
    r"|around|approximately|roughly|nearly|almost|up|beyond|within|exceeding|before|after|until"
    r"|from|step|case|equation|part|chapter|page|figure|problem|question|exercise|example|method"
    r"|option|base|mod|modulo|square|squared|cube|cubed|into|point|root|power|sqrt|log|ln|exp|sin"
    r"|cos|tan|gcd|lcm|pi|hundred|thousand|million|billion|dozen|twenty|thirty|forty|fifty|sixty"
    r"|seventy|eighty|ninety|except|excluding|without|only|either|neither|nor|but|divisible|first"
    r"|last|every|per|twice|double|thrice|triple|half|quarter|third|inverse|reciprocal|approx|ca|circa"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|[a-z]+teen|against|versus|vs"
    r"|maybe|perhaps|possibly|if|when|factorial|choose",
    re.IGNORECASE,
)
_RESULT = re.compile(
    r"(?:\b(?:total|sum|profit|answer|cost|price|value|average|amount)[ ]of"
    r"|\b(?:equals?|equal|comes?|amounts?|simplifies|evaluates|reduces)[ ]to"
    r"|\b(?:rose|fell|grew|increased|decreased|dropped|changed)[ ]by)$",
    re.IGNORECASE,
)
_UNIT = re.compile(
    r"(?:[kcm]m|[km]g|m[lL]|ft|in|lbs?|oz|hrs?|min|mph|cents?|seconds?|minutes?|hours?|days?)\b"
    r"|°(?![A-Za-z])|\^(?:\\circ(?![a-zA-Z])|\{\\circ\})"
)
_NUMBER_END = re.compile(r"\.(?:\*\*|\$|\\[)\]])*(?=\s|$)|[,;](?=\s)|。")
_NEXT_WORDS = re.compile(
    r"\s*(?:an?[ ])?(?P<first>[a-zA-Z]{2,})(?![\w^_(])(?:[ ](?P<second>[a-zA-Z]+))?"
)
_IS_THE_ANSWER = re.compile(r"\s*is (?:the|our) (?:final )?(?:answer|result)\b")
_BAD_AFTER = re.compile(
    r"or|and|but|not|nor|pi|times|dozens?|hundreds?|thousands?|millions?|billions?|trillions?"
    r"|[a-z]*(?:[dnrf]ths?|enths?|ifths?|ixths?|eighths?)|thirds?|half|halves|quarters?|plus|minus"
    r"|over|divided|multiplied|mod|modulo|squared|cubed|to|factorial|point|choose|if|when|unless"
    r"|except|is|was|isn|are|cannot|would|could|may|might|does|doesn|did|remainder|out|of|less"
    r"|raised|percentile|otherwise|instead|rather|wrong|incorrect|false|scores?|dot|sqrt|root"
    r"|sin|cos|tan|log|ln|exp|base|bn|mn|lakhs?|crores?|gross|grand|pairs?|tens",
    re.IGNORECASE,
)


def before_next_problem(text: str) -> str:
    """A text up to a line that begins a further problem, with which base models go on."""
    for line in _NEXT_PROBLEM.finditer(text):
        before = text[: line.start()]
        if before.strip():
            return before
    return text


def answer_line(text: str) -> str:
    """What the last `Answer:` or `the answer is` states."""
    return _stated(text, _ANSWER)


def minerva(text: str) -> str:
    """The answer of `The final answer is $5$. I hope it is correct.`"""
    return _stated(text, _MINERVA)


def answer_tag(text: str) -> str:
    """The content of the last <answer>...</answer> that is not empty.

    If the last tag is not closed, there is none, because the response was truncated.
    """
    opening = None  # where the content of the open tag begins
    answer = ""
    end = 0
    for tag in _TAG.finditer(text):
        if not tag[0].startswith("</"):
            opening = tag.end()
            continue
        content = "" if opening is None else text[opening : tag.start()].strip()
        if content and opening is not None:
            gap = text[end : opening - len("<answer>")]
            answer = f"{answer} or {content}" if answer and is_alternative(gap) else content
            end = tag.end()
        opening = None
    if opening is not None or not answer:
        return ""
    return _with_alternative(answer_line(answer) or answer, text, end)


def hashes(text: str) -> str:
    """What follows the last ####, unless it is a heading: words, followed by further lines."""
    length = len(text.rstrip())
    last = None
    for match in _HASHES.finditer(text):
        is_heading = match.end() < length and _HEADING.match(match["answer"])
        if not is_heading:
            last = match
    if last is None:
        return ""
    answer = last["answer"].strip()
    return _with_alternative(answer_line(answer) or answer, text, last.end())


def is_alternative(gap: str) -> bool:
    """Whether the text between two answers offers both: `or`, `/`, `∨`, `, or possibly`, ..."""
    if len(gap) > LONGEST_GAP:
        return False
    if _OR_SIGN.search(gap) or _COMBINES.fullmatch(gap):
        return True
    words = _LETTERS.findall(_COMMAND.sub(" ", gap).lower())
    if words[:2] in (["or", "rather"], ["or", "equivalently"]):
        return False
    return bool(words) and not _OR_WORDS.isdisjoint((words[0], words[-1]))


def _stated(text: str, marker: re.Pattern[str]) -> str:
    """The answer after the last match of a marker; empty if the sentence withdraws it."""
    last = None
    for match in marker.finditer(text):
        if not _PRAISE.match(text, match.end()):
            last = match
    if last is None or _is_withdrawn(text, last.start()):
        return ""
    displayed = _DISPLAYED.match(text, last.end())
    if displayed is not None:
        answer = displayed["dollars"] or displayed["brackets"]
        return _with_alternative(answer.strip(), text, displayed.end())
    line = _LINE.match(text, last.end())
    assert line is not None  # the pattern also matches an empty text
    start, end = line.span("answer")
    for stop in (_TAG, _SENTENCE_END, _REASON):
        found = stop.search(text, start, end)
        if found is not None:
            end = found.start()
    return _with_alternative(text[start:end].strip(), text, end)


def _is_withdrawn(text: str, place: int) -> bool:
    """Whether the sentence before a place denies or supposes what it states."""
    before = text[max(0, place - _LONGEST_BEGINNING) : place]
    sentence = _SENTENCE_BOUNDARY.split(before)[-1]
    clause = re.split("[,:]", sentence)[-1]
    return _DENIED.search(sentence) is not None or _SUPPOSED.search(clause) is not None


def _with_alternative(answer: str, text: str, end: int) -> str:
    """An answer, with the alternative that the text offers after it; empty if it withdraws it."""
    if _WITHDRAWAL.match(text, end):
        return ""
    alternative = _ALTERNATIVE.match(text, end) if answer else None
    return answer if alternative is None else f"{answer} or {alternative['other'].strip()}"


def last_number(text: str) -> str:
    """The last number of a text, if what stands on both sides of it belongs to no formula or list.

    Only known neighbours count, because a number next to any other sign is not the answer.
    """
    text = _CONTROL.sub("", text.replace("\N{MINUS SIGN}", "-"))
    number = None
    for match in _NUMBER.finditer(text):
        number = match
    if number is None:
        return ""
    start, end = number.span()
    before = text[max(0, start - _LONGEST_BEGINNING) : start]
    after = text[end : end + _LONGEST_BEGINNING]
    is_answer = _may_precede(before) and _may_follow(after)
    if not is_answer or _is_withdrawn(text, start):
        return ""
    return number[0]


def _may_precede(before: str) -> bool:
    """Whether a number after this text may be the answer."""
    stem = _OPENINGS.sub("", before)
    opening = before[len(stem) :]
    if not stem:
        return True
    if stem[-1] in "是为為#":
        return True
    if stem[-1] == "=":
        return _COMPARISON.search(stem) is None
    if stem[-1] in ":：":
        return not stem[:-1].rstrip("*_ ")[-1:].isdigit()
    if stem[-1] == ".":
        return "\n" in opening or _ABBREVIATION.search(stem) is None
    word = _LAST_WORDS.search(stem)
    if word is None or not opening:
        return False
    return _BAD_BEFORE.fullmatch(word["last"]) is None and _good_pair(word["words"])


def _good_pair(words: str) -> bool:
    """Whether a preposition is one of a result, as in `a total of 6` and `rose by 6`."""
    last = words.split()[-1].lower()
    return last not in ("of", "to", "by") or _RESULT.search(words) is not None


def _may_follow(after: str) -> bool:
    """Whether a number before this text may be the answer."""
    if _WITHDRAWAL.match(after):
        return False
    unit = _UNIT.match(after)
    rest = after[unit.end() :] if unit else after
    closing = _CLOSINGS.match(rest)
    rest = rest[closing.end() :] if closing else rest
    if not rest.strip():
        return True
    sentence_end = _NUMBER_END.match(rest)
    if sentence_end is not None:
        rest = rest[sentence_end.end() :]
        # A new sentence may be anything that does not go on with `or`.
        return _ALTERNATIVE.match(rest) is None and (
            sentence_end[0].startswith(".") or _word_may_follow(rest)
        )
    return rest[0].isspace() and _word_may_follow(rest)


def _word_may_follow(rest: str) -> bool:
    """Whether a text after a number begins with a word that does not change the number."""
    if _IS_THE_ANSWER.match(rest):
        return True
    words = _NEXT_WORDS.match(rest)
    if words is None:
        return False
    is_bad = _BAD_AFTER.fullmatch(words["first"]) or words["second"] in ("than", "of", "or", "base")
    return not is_bad
