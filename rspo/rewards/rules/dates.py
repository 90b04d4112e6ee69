"""Compares times, dates and ranges in digits: 11:30, 2023-01-02, 10-20, 555-1234.

Their signs are no arithmetic: 2023-01-02 is not 2020.
"""

from rspo.rewards.rules.notation import Tokens


def same(gold: Tokens, prediction: Tokens) -> bool | None:
    """Whether both are the same time, date or range.

    Returns: None if they are compared by their values, because neither is a time, date or range.
    """
    differences = _is_difference(gold) and _is_difference(prediction)
    kind = _kind(gold)
    other_kind = _kind(prediction)
    # A response may state a number as a difference: 5 - 8 for -3.
    if not differences and kind == "" and other_kind in ("", "range"):
        return None
    return (differences or kind == other_kind) and _numbers(gold) == _numbers(prediction)


def as_time(tokens: Tokens) -> Tokens:
    """An hour, as in 5 pm, as a time: 5:00. Any other tokens stay as they are."""
    if len(tokens) == 1 and _is_digits(tokens[0]) and len(tokens[0]) <= 2:
        return tokens + (":", "00")
    return tokens


def _kind(tokens: Tokens) -> str:
    """What the tokens are: "time", "date" or "range"; empty for anything else."""
    if len(tokens) not in (3, 5) or not all(map(_is_digits, tokens[::2])):
        return ""
    if _is_time(tokens):
        return "time"
    if _is_date(tokens):
        return "date"
    # A smaller number minus a larger one is written as a negative number, not as 10-20.
    is_range = _is_difference(tokens) and int(tokens[0]) < int(tokens[2])
    return "range" if is_range else ""


def _is_time(tokens: Tokens) -> bool:
    """Whether numbers may be a time of day or a duration: 3:45, 12:30, 1:02:03.

    Numbers with a colon between them are also a ratio, as 3:4 is. The last number of a time has two
    digits and is less than 60.
    """
    if set(tokens[1::2]) != {":"}:
        return False
    return len(tokens[0]) <= 2 and all(len(token) == 2 and token < "60" for token in tokens[2::2])


def _is_date(tokens: Tokens) -> bool:
    """Whether numbers are a year, a month and a day, or the year is last: 2023-01-02, 1/2/2023."""
    if tokens[1::2] not in (("-", "-"), ("/", "/")):
        return False
    lengths = [len(token) for token in tokens[::2]]
    year_first = lengths[0] == 4 and max(lengths[1:]) <= 2
    year_last = lengths[2] == 4 and max(lengths[:2]) <= 2
    return year_first or year_last


def _is_difference(tokens: Tokens) -> bool:
    """Whether the tokens are two whole numbers with a minus sign between them.

    Two such answers are a range, a score or a telephone number, so that 3-1 is not 4-2.
    """
    return len(tokens) == 3 and tokens[1] == "-" and all(map(_is_digits, tokens[::2]))


def _is_digits(token: str) -> bool:
    return token.isascii() and token.isdigit()


def _numbers(tokens: Tokens) -> list[int]:
    """The numbers of a time, date or range."""
    return [int(token) for token in tokens[::2]]
