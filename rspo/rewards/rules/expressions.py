r"""Parser of formulas: tokens -> tree.

It supports sums, products, quotients, powers, roots, logarithms, trigonometry, binomials,
factorials, absolute values, floors, mixed numbers and repeating decimals. It rejects everything
else, such as integrals, the sign of a sum and unknown functions, instead of guessing. It evaluates
no text: a formula becomes a tree of known operations.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from rspo.rewards.rules.notation import TEXT, Tokens

_LONGEST_PRODUCT = 20  # adjacent letters
_DEEPEST = 60  # nested brackets; answers need less than half as many


class Unreadable(Exception):
    """The tokens are not a formula that this parser supports."""


class TooDeep(Exception):
    """The brackets are nested more deeply than in any answer."""


@dataclass(frozen=True)
class Number:
    value: Fraction
    written: str = field(default="", compare=False)  # its digits, if it is a plain decimal


@dataclass(frozen=True)
class Symbol:
    name: str


@dataclass(frozen=True)
class Apply:
    operation: str
    arguments: tuple["Expression", ...]


Expression = Number | Symbol | Apply

# --- parsing --------------------------------------------------------------------------------------


def _commands(names: str) -> frozenset[str]:
    return frozenset("\\" + name for name in names.split())


_GREEK = _commands(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega "
    "ell hbar pi infty mho imath jmath parameter"
)
_ACCENTS = _commands("vec bar hat overline tilde dot ddot")
FUNCTIONS = _commands(
    "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh ln log lg exp"
)
_PAIRS = {"(": ")", "[": "]", "{": "}", r"\lfloor": r"\rfloor", r"\lceil": r"\rceil"}
_FUNCTION_NAMES = set("fghFGH")
_FACTOR_ENDS = {"+", "-", "*", "/", ":", ")", "]", "}", "=", ",", "!", "^", "_"}


def read(tokens: Tokens) -> Expression:
    """The tree of a token sequence.

    Raises: Unreadable if any part of it is not supported, TooDeep.
    """
    if r"\infty" in tokens and len(tokens) > 2:
        raise Unreadable  # infinity may end an interval, but has no arithmetic
    reader = _Reader(tokens)
    expression = reader.sum()
    if reader.next is not None:
        raise Unreadable
    return expression


class _Reader:
    """Recursive descent over tokens. 1/2x means (1/2)x, by the order of operations."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = list(reversed(tokens))
        self._depth = 0
        self._within_bars = False
        self._last = ""

    @property
    def next(self) -> str | None:
        return self._tokens[-1] if self._tokens else None

    def take(self) -> str:
        if not self._tokens:
            raise Unreadable
        self._last = self._tokens.pop()
        return self._last

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise Unreadable

    def sum(self) -> Expression:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise TooDeep
        total = self.product()
        while self.next in ("+", "-"):
            sign = self.take()
            total = Apply(sign, (total, self.product()))
        self._depth -= 1
        return total

    def product(self) -> Expression:
        product = self.signed()
        while True:
            if self.next in ("*", "/", ":"):
                sign = "/" if self.take() != "*" else "*"
                product = Apply(sign, (product, self.signed()))
            elif self._starts_factor():
                product = Apply("*", (product, self.power()))
            else:
                return product

    def _starts_factor(self) -> bool:
        """Whether another factor follows without a sign. A number may do so only after brackets."""
        following = self.next
        if following is None or following in _FACTOR_ENDS or following in _PAIRS.values():
            return False
        if following == "|":
            return not self._within_bars
        return self._last in (")", "}") or not (following[0].isdigit() or following[0] == ".")

    def signed(self) -> Expression:
        minus = False
        while self.next in ("+", "-"):
            minus ^= self.take() == "-"
        factor = self.power()
        return Apply("negate", (factor,)) if minus else factor

    def power(self) -> Expression:
        base = self.postfix(self.atom())
        if self.next != "^":
            return base
        self.take()
        return self.postfix(Apply("^", (base, self.exponent())))

    def exponent(self) -> Expression:
        """What follows ^: a group, or a signed atom that may have an exponent itself."""
        return self.argument() if self.next == "{" else self.signed()

    def postfix(self, operand: Expression) -> Expression:
        while self.next in ("!", r"\degree", r"\%"):
            operand = Apply(self.take(), (operand,))
        return operand

    def argument(self) -> Expression:
        """An argument of a command, in braces or a single atom."""
        if self.next != "{":
            return self.atom()
        self.take()
        return self._inside("}")

    def _inside(self, closing: str) -> Expression:
        bars, self._within_bars = self._within_bars, closing == "|"
        inside = self.sum()
        self.expect(closing)
        self._within_bars = bars
        return inside

    def atom(self) -> Expression:
        token = self.take()
        if token[0].isdigit() or (token[0] == "." and token != "."):
            return self._number(token)
        if token == "|":
            return Apply("abs", (self._inside("|"),))
        if token in _PAIRS:
            inside = self._inside(_PAIRS[token])
            return Apply(token, (inside,)) if token.startswith("\\") else inside
        if token in (r"\frac", r"\binom"):
            return Apply(token, (self.argument(), self.argument()))
        if token == r"\sqrt":
            return self._root()
        if token in FUNCTIONS:
            return self._function(token)
        return self._symbol(token)

    def _number(self, token: str) -> Expression:
        if not token.isascii():
            raise Unreadable
        if len(token.lower().partition("e")[2].lstrip("+-0")) > 4:
            raise Unreadable
        value = Fraction(token)
        written = token if "." in token and self.next != r"\overline" else ""
        if self.next == r"\overline" and "." in token:
            self.take()
            value += self._repeating(len(token.partition(".")[2]))
        if token.isdigit() and (fraction := self._fraction_of_mixed()) is not None:
            value += fraction
        if self.next == "_":
            raise Unreadable  # the number is in another base
        return Number(value, written)

    def _repeating(self, places: int) -> Fraction:
        """The value that repeating digits add after that many decimal places."""
        self.expect("{")
        digits = self.take()
        self.expect("}")
        if not _is_digits(digits):
            raise Unreadable
        return Fraction(int(digits), (10 ** len(digits) - 1) * 10**places)

    def _fraction_of_mixed(self) -> Fraction | None:
        r"""The fraction directly after an integer, as in 2\frac{1}{3} or 2 1/3."""
        for signs in ([r"\frac", "{", "", "}", "{", "", "}"], ["", "/", ""]):
            ahead = self._tokens[-1 : -len(signs) - 1 : -1]
            if [("" if _is_digits(token) else token) for token in ahead] == signs:
                numerator, denominator = (int(token) for token in ahead if _is_digits(token))
                del self._tokens[-len(signs) :]
                if denominator == 0:
                    raise Unreadable
                return Fraction(numerator, denominator)
        return None

    def _root(self) -> Expression:
        index: Expression = Number(Fraction(2))
        if self.next == "[":
            self.take()
            index = self._inside("]")
        if self.next == "{":
            radicand = self.argument()
        else:  # \sqrt5, \sqrt(5), \sqrt x
            token = self.take()
            if token.isalpha() and len(token) > 1:
                self._tokens.append(token[1:])
                token = token[0]
            self._tokens.append(token)
            radicand = self.atom()
        return Apply("root", (radicand, index))

    def _function(self, name: str) -> Expression:
        base: tuple[Expression, ...] = ()
        exponent: Expression | None = None
        if self.next == "_" and name == r"\log":
            self.take()
            base = (self.argument(),)
        if self.next == "^":
            self.take()
            exponent = self.exponent()
        applied = Apply(name, (self._function_argument(), *base))
        if exponent is None:
            return applied
        if exponent == Apply("negate", (Number(Fraction(1)),)):
            inverse = name.replace("\\", r"\arc")
            if inverse not in FUNCTIONS:
                raise Unreadable
            return Apply(inverse, applied.arguments)
        return Apply("^", (applied, exponent))

    def _function_argument(self) -> Expression:
        r"""Brackets, or the factors up to the next sign or function: \sin 2x \cos x."""
        if self.next in ("(", "{", "["):
            return self.postfix(self.atom())
        argument = self.signed()
        while self._starts_factor() and self.next not in FUNCTIONS:
            argument = Apply("*", (argument, self.power()))
        return argument

    def _symbol(self, token: str) -> Expression:
        if token in _ACCENTS:
            token += "{" + "".join(self._group()) + "}"
        elif token.startswith(TEXT):
            token = token[1:]
            if len(token) > 1:
                raise Unreadable
        elif token.isalpha() and token.isascii():
            if len(token) > _LONGEST_PRODUCT:
                raise Unreadable
            if len(token) > 1:
                self._tokens.append(token[1:])
                token = token[0]
        elif token not in _GREEK:
            raise Unreadable
        while self.next == "'":
            token += self.take()
        if self.next == "_":
            self.take()
            token += "_" + "".join(self._group())
        argument = self._tokens[-2:-1]
        if self._tokens[-3::2] == [")", "("] and token not in ("e", "i", r"\pi"):
            del self._tokens[-3:]  # I(0) and x(t): a name and an argument
            return Symbol(f"{token}({argument[0]})")
        if token in _FUNCTION_NAMES and self.next == "(":
            raise Unreadable  # f(2x) is not a product
        return Symbol(token)

    def _group(self) -> Iterator[str]:
        """The tokens of a group without inner braces; if there is no group, the next token."""
        if self.next != "{":
            yield self.take()
            return
        depth = 0
        while True:
            token = self.take()
            depth += {"{": 1, "}": -1}.get(token, 0)
            if depth == 0:
                return
            if token not in "{}":
                yield token.removeprefix(TEXT)


def _is_digits(token: str) -> bool:
    return token.isascii() and token.isdigit()
