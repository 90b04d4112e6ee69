r"""Compares answers in words and letters: `Even` and `\text{even}`, `Jan. 5th` and `5 January`.

Letters are also products of variables: xy is yx. An answer that consists of letters only is a word,
and no such product, unless its letters are usual variables.
"""

from rspo.rewards.rules import units
from rspo.rewards.rules.notation import TEXT, Tokens

_MONTH_NAMES = (
    "january february march april may june july august september october november december"
)
_MONTHS_IN_FULL = frozenset(_MONTH_NAMES.split())
# Short names of months, and their full names.
_MONTHS = {month[:3]: month for month in _MONTH_NAMES.split()} | {"sept": "september"}
_IN_DATES = frozenset((".", ",", "the", "of", "th", "st", "nd", "rd"))


def same(gold: Tokens, prediction: Tokens) -> bool:
    r"""Whether both are the same words, with or without \text{}, ignoring case."""
    if not any(units.is_word(token) for token in gold + prediction):
        return False
    return _words(gold) == _words(prediction)


def only_letters(tokens: Tokens) -> bool:
    """Whether an answer is words or adjacent letters without anything else: dog, HT, `A then B`."""
    letters = "".join(tokens).replace(TEXT, "")
    return letters.isascii() and letters.isalpha()


def same_letters(gold: Tokens, prediction: Tokens) -> bool:
    """Whether two answers of letters only are the same word, or the same product of variables.

    The order of the letters does not matter in a product. The case does, and in short names it may
    too: Co is not CO.
    """
    product = _joined(gold)
    other_product = _joined(prediction)
    if _is_product(product) or _is_product(other_product):
        return sorted(product) == sorted(other_product)
    if product == other_product or _words(gold) != _words(prediction):
        return product == other_product
    return len(product) > 2 or product.islower() or other_product.islower()


def _is_product(letters: str) -> bool:
    """Whether letters are a product of variables: xy, mgh, abc.

    Other answers in lower case with a vowel are words, such as dog, and act. Capitals are names,
    such as HT for two tosses of a coin.
    """
    if not letters.islower():
        return False
    alphabetical = set(letters) <= set("abcd") and list(letters) == sorted(letters)
    return alphabetical or set("aeiou").isdisjoint(letters)


def _joined(tokens: Tokens) -> str:
    """All letters of an answer."""
    return "".join(token.removeprefix(TEXT) for token in tokens)


def differ_in_letters(gold: Tokens, prediction: Tokens) -> bool:
    """Whether both have words of three capitals or more, and these differ: HTH is not THH.

    As a product of variables, they would be equal. Only an angle may be named from either end.
    """
    names = _capitals(gold)
    other_names = _capitals(prediction)
    if not names or not other_names or names == other_names:
        return False
    angles = r"\angle" in gold and r"\angle" in prediction
    return not (angles and names == [name[::-1] for name in other_names])


def _capitals(tokens: Tokens) -> list[str]:
    """The names of three or more capital letters, such as those of triangles and coin flips."""
    return [token for token in tokens if len(token) > 2 and token.isalpha() and token.isupper()]


def _words(tokens: Tokens) -> list[str]:
    """The words of an answer, in lower case except for single letters: A and a are different."""
    words = [token.removeprefix(TEXT) for token in tokens]
    words = [word.lower() if len(word) > 1 else word for word in words]
    words = [_MONTHS.get(word, word) for word in words]
    if not _MONTHS_IN_FULL.isdisjoint(words):  # Jan. 5th and 5 January
        return sorted(word for word in words if word not in _IN_DATES)
    if any(word[0].isdigit() or (len(word) == 1 and word.isalpha()) for word in words):
        return words
    # Without numbers and variables, hyphens, brackets and periods are punctuation.
    return words[:1] + [word for word in words[1:] if word not in ("-", "(", ")", ".")]
