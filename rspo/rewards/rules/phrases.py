r"""Words for sets of numbers and for "no answer": `all real numbers` is \mathbb{R}."""

from rspo.rewards.rules.notation import TEXT, Tokens

_EMPTY: Tokens = (r"\emptyset",)
_REALS: Tokens = (r"\mathbb", "{", "R", "}")
_UNDEFINED: Tokens = (TEXT + "undefined",)
_INTEGERS = TEXT + "integers"  # of a kind, as in `positive integers`

# Words that do not matter in these phrases.
_FILLERS = (
    "the of there is are exist exists a an any all every x such values for it limit equation has"
)
_EVERY = {"all", "any", "every"}
_LEFT_OUT = frozenset(_FILLERS.split())


def _phrase(words: list[str]) -> str:
    """The words without those that do not matter."""
    return " ".join(word for word in words if word not in _LEFT_OUT)


_MEANINGS: dict[str, Tokens] = {
    **dict.fromkeys(("real numbers", "real number", "reals", "set real numbers"), _REALS),
    **dict.fromkeys(("no solution", "no solutions", "none", "empty set"), _EMPTY),
    **dict.fromkeys(("no real solution", "no real solutions", "no solution exists"), _EMPTY),
    **dict.fromkeys(("no real number", "no real numbers", "no number"), _EMPTY),
    **dict.fromkeys(("does not exist", "dne", "undefined", "not defined"), _UNDEFINED),
    "doesn ' t exist": _UNDEFINED,
    **dict.fromkeys(("integers", "integer"), (r"\mathbb", "{", "Z", "}")),
    **dict.fromkeys(("positive integers", "positive integer"), (TEXT + "positive", _INTEGERS)),
    **dict.fromkeys(("negative integers", "negative integer"), (TEXT + "negative", _INTEGERS)),
    "nonnegative integers": (TEXT + "nonnegative", _INTEGERS),
    "non - negative integers": (TEXT + "nonnegative", _INTEGERS),
    "natural numbers": (r"\mathbb", "{", "N", "}"),
    **dict.fromkeys(("positive reals", "positive real numbers"), ("(", "0", ",", r"\infty", ")")),
}
_BY_PHRASE = {_phrase(words.split()): tokens for words, tokens in _MEANINGS.items()}
# Signs for the same sets.
_SIGNS: dict[str, Tokens] = {
    **dict.fromkeys(
        ("Z^+", "Z_+", "Z_{>0}", r"Z_{\geq1}", "Z^{+}"), _MEANINGS["positive integers"]
    ),
    **dict.fromkeys(("Z^-", "Z_-", "Z_{<0}", "Z^{-}", "Z_{-}"), _MEANINGS["negative integers"]),
    **dict.fromkeys((r"Z_{\geq0}", r"Z^{\geq0}"), _MEANINGS["nonnegative integers"]),
    **dict.fromkeys(("R^+", "R_+", "R_{>0}", "R^{+}", "R_{+}"), _MEANINGS["positive reals"]),
}


def in_signs(tokens: Tokens) -> Tokens:
    """The set that tokens name, as its signs; any other tokens as they are."""
    words = [token.removeprefix(TEXT).lower() for token in tokens]
    if all(word.isalpha() or word in ("-", "'") for word in words):
        if _phrase(words) == "real" and not _EVERY.isdisjoint(words):  # all real x
            return _REALS
        return _BY_PHRASE.get(_phrase(words), tokens)
    if tokens[:1] == (r"\mathbb",):
        bare = tokens[1:]
        if bare[:1] == ("{",) and bare[2:3] == ("}",):  # \mathbb{Z}^+
            bare = bare[1:2] + bare[3:]
        return _SIGNS.get("".join(bare), tokens)
    return tokens
