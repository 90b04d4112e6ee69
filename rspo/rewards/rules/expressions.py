r"""Parses formulas: tokens -> tree.

The parser supports sums, products, quotients, powers, roots, logarithms, trigonometry, binomials,
factorials, absolute values, floors, mixed numbers and repeating decimals. It rejects everything
else, such as integrals, the sign of a sum and unknown functions, instead of guessing. It evaluates
no text: a formula becomes a tree of known operations.
"""

from dataclasses import dataclass, field
from fractions import Fraction

from rspo.rewards.rules.notation import TEXT, Tokens

_LONGEST_PRODUCT = 20  # adjacent letters, which are a product of variables
_DEEPEST = 60  # nested brackets; answers need less than half as many


class Unreadable(Exception):
    """The tokens are not a formula that this parser supports."""


class TooDeep(Exception):
    """The brackets are nested more deeply than in any answer."""


@dataclass(frozen=True)
class Number:
    """A number.

    written: its digits if it has a decimal point and no repeating digits; such a decimal may be
        rounded. Empty for other numbers.
    """

    value: Fraction
    written: str = field(default="", compare=False)


@dataclass(frozen=True)
class Symbol:
    r"""A variable or constant: x, x_1, I(0), \pi."""

    name: str


@dataclass(frozen=True)
class Apply:
    r"""An operation such as + or \sin, and its arguments."""

    operation: str
    arguments: tuple["Expression", ...]


Expression = Number | Symbol | Apply
_MINUS_ONE = Apply("negate", (Number(Fraction(1)),))  # the exponent of an inverse function

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
    "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh ln log lg exp cis"
)
_PAIRS = {"(": ")", "[": "]", "{": "}", r"\lfloor": r"\rfloor", r"\lceil": r"\rceil"}
_DIGITS = ""  # stands for any token of digits in `_FRACTIONS`; no token is empty
# Forms of the fraction in a mixed number.
_FRACTIONS = (
    [r"\frac", "{", _DIGITS, "}", "{", _DIGITS, "}"],
    [_DIGITS, "/", _DIGITS],
)
_FUNCTION_NAMES = set("fghFGH")  # letters that are functions before a bracket
# Tokens that cannot begin a factor.
_FACTOR_ENDS = {"+", "-", "*", "/", ":", ")", "]", "}", "=", ",", "!", "^", "_"}


def read(tokens: Tokens) -> Expression:
    """Parse a formula.

    Raises: Unreadable if any part of it is not supported; TooDeep if its brackets are nested more
        deeply than in any answer.
    """
    if r"\infty" in tokens and len(tokens) > 2:
        raise Unreadable  # infinity may end an interval, but has no arithmetic
    reader = _Reader(tokens)
    expression = reader.sum()
    if reader.next is not None:
        raise Unreadable
    return expression


class _Reader:
    """A recursive-descent parser. 1/2x means (1/2)x, by the order of operations.

    Each method that returns an expression removes the tokens of that expression, and raises
    Unreadable if the next tokens are no such expression.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = list(reversed(tokens))  # those that are left; the next one is at the end
        self._depth = 0  # number of brackets around the next token
        self._within_bars = False  # whether the innermost brackets are |...|
        self._last = ""  # the last token that was removed

    @property
    def next(self) -> str | None:
        """The next token, which stays; None at the end."""
        return self._tokens[-1] if self._tokens else None

    def take(self) -> str:
        """Remove and return the next token."""
        if not self._tokens:
            raise Unreadable
        self._last = self._tokens.pop()
        return self._last

    def expect(self, token: str) -> None:
        """Remove the next token. Raises: Unreadable if it is another one."""
        if self.take() != token:
            raise Unreadable

    def sum(self) -> Expression:
        """Products with plus or minus between them."""
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
        """Factors with a sign between them, or side by side."""
        product = self.signed()
        colons = 0
        while True:
            if self.next in ("*", "/", ":"):
                sign = self.take()
                if sign == ":":
                    colons += 1
                    sign = "/"
                if colons > 1:
                    raise Unreadable  # 1:2:3 has no value
                product = Apply(sign, (product, self.signed()))
            elif self._starts_factor():
                product = Apply("*", (product, self.power()))
            else:
                return product

    def _starts_factor(self) -> bool:
        """Whether another factor follows without a sign, as in 2x.

        A number follows without a sign only after brackets: (x)2, but not x2. A bar within bars
        closes them.
        """
        following = self.next
        if following is None or following in _FACTOR_ENDS or following in _PAIRS.values():
            return False
        if following == "|":
            return not self._within_bars
        return self._last in (")", "}") or not (following[0].isdigit() or following[0] == ".")

    def signed(self) -> Expression:
        """A factor after any number of signs."""
        minus = False
        while self.next in ("+", "-"):
            minus ^= self.take() == "-"  # two minus signs cancel
        factor = self.power()
        return Apply("negate", (factor,)) if minus else factor

    def power(self) -> Expression:
        """An atom, and its exponent if it has one."""
        base = self.postfix(self.atom())
        if self.next != "^":
            return base
        self.take()
        return self.postfix(Apply("^", (base, self.exponent())))

    def exponent(self) -> Expression:
        """What follows ^: a group, or a signed atom that may have an exponent itself."""
        return self.argument() if self.next == "{" else self.signed()

    def postfix(self, operand: Expression) -> Expression:
        """The operand with the factorials, degree signs and percent signs after it."""
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
        """The content of brackets whose opening bracket was removed, up to the closing bracket."""
        outside_within_bars = self._within_bars
        self._within_bars = closing == "|"
        inside = self.sum()
        self.expect(closing)
        self._within_bars = outside_within_bars
        return inside

    def atom(self) -> Expression:
        """A number, a symbol, brackets, or a command with its arguments."""
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
        """A decimal, perhaps with repeating digits, or an integer and the fraction after it."""
        if not token.isascii():
            raise Unreadable
        # The exponent of scientific notation, 4.5e33; a huge one would take too much memory.
        exponent = token.lower().partition("e")[2]
        if len(exponent.lstrip("+-0")) > 4:
            raise Unreadable
        value = Fraction(token)
        written = ""
        if "." in token:
            if self.next == r"\overline":
                self.take()
                places = len(token.partition(".")[2])
                value += self._repeating(places)
            else:
                written = token
        if token.isdigit():
            value += self._fraction_of_mixed()
        if self.next == "_":
            raise Unreadable  # the number is in another base
        return Number(value, written)

    def _repeating(self, places: int) -> Fraction:
        r"""The value that repeating digits add after `places` decimal places.

        For 0.1\overline{6}, they are 6/9 of the first place: 6 / (9 * 10).
        """
        self.expect("{")
        digits = self.take()
        self.expect("}")
        if not _is_digits(digits):
            raise Unreadable
        return Fraction(int(digits), (10 ** len(digits) - 1) * 10**places)

    def _fraction_of_mixed(self) -> Fraction:
        r"""The fraction directly after an integer, as in 2\frac{1}{3} or 2 1/3; 0 without one."""
        for form in _FRACTIONS:
            # The next tokens, as many as the form has, in their order.
            following = self._tokens[: -len(form) - 1 : -1]
            if [_DIGITS if _is_digits(token) else token for token in following] == form:
                numerator, denominator = (int(token) for token in following if _is_digits(token))
                del self._tokens[-len(form) :]
                if denominator == 0:
                    raise Unreadable
                return Fraction(numerator, denominator)
        return Fraction(0)

    def _root(self) -> Expression:
        """A root, whose sign was removed, with an index in square brackets if it has one."""
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
        r"""A function whose name was removed.

        A base or exponent may precede its argument, as in \sin^2 x.
        """
        base: Expression | None = None
        exponent: Expression | None = None
        if self.next == "_" and name == r"\log":
            self.take()
            base = self.argument()
        if self.next == "^":
            self.take()
            exponent = self.exponent()
        argument = self._function_argument()
        arguments = (argument,) if base is None else (argument, base)
        if exponent is None:
            return Apply(name, arguments)
        if exponent == _MINUS_ONE:  # \sin^{-1} is \arcsin
            inverse = name.replace("\\", r"\arc")
            if inverse not in FUNCTIONS:
                raise Unreadable
            return Apply(inverse, arguments)
        return Apply("^", (Apply(name, arguments), exponent))

    def _function_argument(self) -> Expression:
        r"""Brackets, or the factors up to the next sign or function: \sin 2x \cos x."""
        if self.next in ("(", "{", "["):
            return self.postfix(self.atom())
        argument = self.signed()
        while self._starts_factor() and self.next not in FUNCTIONS:
            argument = Apply("*", (argument, self.power()))
        return argument

    def _symbol(self, token: str) -> Expression:
        """A name with its primes, its index, and an argument of one token: x, x_1, y', I(0)."""
        name = self._letter(token)
        while self.next == "'":
            name += self.take()
        if self.next == "_":
            self.take()
            name += "_" + self._group()
        # The next tokens are "(", any token and ")": the list is in reverse.
        if self._tokens[-3::2] == [")", "("] and name not in ("e", "i", r"\pi"):
            argument = self._tokens[-2]
            del self._tokens[-3:]  # I(0) and x(t): a name and an argument
            return Symbol(f"{name}({argument})")
        if name in _FUNCTION_NAMES and self.next == "(":
            raise Unreadable  # f(2x) is not a product
        return Symbol(name)

    def _letter(self, token: str) -> str:
        """The letter with which a token begins; letters after it stay as the next token."""
        if token in _ACCENTS:
            return token + "{" + self._group() + "}"
        if token.startswith(TEXT):
            letter = token.removeprefix(TEXT)
            if len(letter) > 1:
                raise Unreadable
            return letter
        if token.isalpha() and token.isascii():
            if len(token) > _LONGEST_PRODUCT:
                raise Unreadable
            if len(token) > 1:
                self._tokens.append(token[1:])
            return token[0]
        if token not in _GREEK:
            raise Unreadable
        return token

    def _group(self) -> str:
        """The text of a group without inner braces; if there is no group, the next token."""
        if self.next != "{":
            return self.take()
        text = ""
        depth = 0
        while True:
            token = self.take()
            if token == "{":
                depth += 1
            elif token == "}":
                depth -= 1
            else:
                text += token.removeprefix(TEXT)
            if depth == 0:
                return text


def _is_digits(token: str) -> bool:
    return token.isascii() and token.isdigit()
