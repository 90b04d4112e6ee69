r"""Words for sets of numbers and for "no answer": `all real numbers` is \mathbb{R}."""

from rspo.rewards.rules.notation import TEXT, Tokens

_EMPTY: Tokens = (r"\emptyset",)
_REALS: Tokens = (r"\mathbb", "{", "R", "}")
_UNDEFINED: Tokens = (TEXT + "undefined",)
_INTEGERS = TEXT + "integers"  # of a kind, as in `positive integers`

# Words that do not matter in the name of a set.
_WORDS_OF_SETS = "the of all any every x for values set is are"
_IN_SETS = frozenset(_WORDS_OF_SETS.split())
# Words that do not matter in the statement that there is nothing.
_WORDS_OF_NOTHING = "the of there is are exist exists such x values for equation it has an"
_IN_NOTHING = frozenset(_WORDS_OF_NOTHING.split())
# Words that do not matter in the statement that a value does not exist.
_WORDS_OF_UNDEFINED = "the of x for it is limit equation value"
_IN_UNDEFINED = frozenset(_WORDS_OF_UNDEFINED.split())
# Words before a noun in the singular that denotes a set: `any integer`; `an integer` is only one.
_EVERY = {"all", "any", "every"}

_SETS: dict[str, Tokens] = {
    **dict.fromkeys(("real numbers", "reals"), _REALS),
    "integers": (r"\mathbb", "{", "Z", "}"),
    "positive integers": (TEXT + "positive", _INTEGERS),
    "negative integers": (TEXT + "negative", _INTEGERS),
    "nonnegative integers": (TEXT + "nonnegative", _INTEGERS),
    "non - negative integers": (TEXT + "nonnegative", _INTEGERS),
    "natural numbers": (r"\mathbb", "{", "N", "}"),
    **dict.fromkeys(("positive reals", "positive real numbers"), ("(", "0", ",", r"\infty", ")")),
}
_SETS_OF_EVERY: dict[str, Tokens] = {
    **dict.fromkeys(("real", "real number"), _REALS),
    "integer": _SETS["integers"],
    "positive integer": _SETS["positive integers"],
    "negative integer": _SETS["negative integers"],
}
_NOTHING = frozenset(
    (
        "no solution",
        "no solutions",
        "none",
        "empty set",
        "no real solution",
        "no real solutions",
        "no real number",
        "no real numbers",
        "no number",
    )
)
_NOT_DEFINED = frozenset(("does not exist", "doesn ' t exist", "dne", "undefined", "not defined"))
# Signs for the same sets.
_SIGNS: dict[str, Tokens] = {
    **dict.fromkeys(("Z^+", "Z_+", "Z_{>0}", r"Z_{\geq1}", "Z^{+}"), _SETS["positive integers"]),
    **dict.fromkeys(("Z^-", "Z_-", "Z_{<0}", "Z^{-}", "Z_{-}"), _SETS["negative integers"]),
    **dict.fromkeys((r"Z_{\geq0}", r"Z^{\geq0}"), _SETS["nonnegative integers"]),
    **dict.fromkeys(("R^+", "R_+", "R_{>0}", "R^{+}", "R_{+}"), _SETS["positive reals"]),
}


def in_signs(tokens: Tokens) -> Tokens:
    """The set that tokens name, as its signs; any other tokens as they are."""
    words = [token.removeprefix(TEXT).lower() for token in tokens]
    if all(word.isalpha() or word in ("-", "'") for word in words):
        return _named(words) or tokens
    if tokens[:1] == (r"\mathbb",):
        bare = tokens[1:]
        if bare[:1] == ("{",) and bare[2:3] == ("}",):  # \mathbb{Z}^+
            bare = bare[1:2] + bare[3:]
        return _SIGNS.get("".join(bare), tokens)
    return tokens


def _named(words: list[str]) -> Tokens:
    """The signs for what a phrase names; empty for any other phrase."""
    phrase = _without(words, _IN_SETS)
    if phrase in _SETS_OF_EVERY and not _EVERY.isdisjoint(words):
        return _SETS_OF_EVERY[phrase]
    if phrase in _SETS:
        return _SETS[phrase]
    if _without(words, _IN_NOTHING) in _NOTHING:
        return _EMPTY
    return _UNDEFINED if _without(words, _IN_UNDEFINED) in _NOT_DEFINED else ()


def _without(words: list[str], left_out: frozenset[str]) -> str:
    """The words without those that do not matter."""
    return " ".join(word for word in words if word not in left_out)
