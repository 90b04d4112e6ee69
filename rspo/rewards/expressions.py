r"""Formulas for one value: tokens -> tree -> value, and when two of them are equal.

The reader knows the arithmetic of school and of calculus answers: sums, products, quotients,
powers, roots, logarithms, trigonometry, binomials, factorials, absolute values, floors, mixed
numbers, repeating decimals. It refuses everything else (integrals, sums with a sign, unknown
functions) rather than guess, and evaluates no text: a formula becomes a tree of known operations.

Two formulas are equal if they agree in value; with variables, at rational points chosen once for
all. Values stay exact fractions as far as they can, and have 60 digits where they cannot.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import factorial

import mpmath

from rspo.rewards.notation import TEXT, Tokens

DIGITS = 60
_CLOSE = mpmath.mpf(10) ** -45
_DEEPEST = 60  # brackets within brackets; no answer nests half as deep
_LARGEST_EXPONENT = 10**6  # of 2; beyond, only identical writing is equal
_LARGEST_EXACT = 20_000  # bits
_LARGEST_FACTORIAL = 2000

Value = Fraction | mpmath.mpf | mpmath.mpc


class Unreadable(Exception):
    """The tokens are no formula that this reader knows."""


class Undefined(Exception):
    """The formula has no value: it divides by zero, say, or is too large to have digits."""


@dataclass(frozen=True)
class Number:
    value: Fraction


@dataclass(frozen=True)
class Symbol:
    name: str


@dataclass(frozen=True)
class Apply:
    operation: str
    arguments: tuple["Expression", ...]


Expression = Number | Symbol | Apply

# --- reading --------------------------------------------------------------------------------------

_GREEK = {
    "\\" + name
    for name in (
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau "
        "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega "
        "ell hbar pi infty mho imath jmath parameter"
    ).split()
}
_ACCENTS = {"\\" + name for name in ("vec", "bar", "hat", "overline", "tilde", "dot", "ddot")}
FUNCTIONS = {
    "\\" + name
    for name in (
        "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh ln log lg exp"
    ).split()
}
_PAIRS = {
    "(": ")",
    "[": "]",
    "{": "}",
    r"\lfloor": r"\rfloor",
    r"\lceil": r"\rceil",
}
_FUNCTION_NAMES = set("fghFGH")
_FACTOR_ENDS = {"+", "-", "*", "/", ":", ")", "]", "}", "=", ",", "!", "^", "_"}


def read(tokens: Tokens) -> Expression:
    """The tree of a whole token sequence.

    Raises: Unreadable if any of it is not understood, Undefined if it is deeper than any answer.
    """
    if r"\infty" in tokens and len(tokens) > 2:
        raise Unreadable  # infinity is an end of an interval, but no number to calculate with
    reader = _Reader(tokens)
    expression = reader.sum()
    if reader.next is not None:
        raise Unreadable
    return expression


class _Reader:
    """Recursive descent over tokens; a plain 1/2x is (1/2)x, as it is calculated."""

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
            raise Undefined
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
        """Whether another factor follows without a sign; a number does so only behind brackets."""
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
        power = Apply("^", (base, self.exponent()))
        return self.postfix(power)

    def exponent(self) -> Expression:
        """What follows ^: a group, or a single signed atom, possibly raised itself."""
        if self.next == "{":
            return self.argument()
        return self.signed()

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
        if token[0].isdigit() or token[0] == ".":
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
        value = decimal(token)
        if self.next == r"\overline" and "." in token:
            self.take()
            value += self._repeating(len(token.partition(".")[2]))
        whole = token.isdigit()
        if whole and (fraction := self._fraction_of_mixed()) is not None:
            value += fraction
        if self.next == "_":
            raise Unreadable  # a number in another base is no value of the digits
        return Number(value)

    def _repeating(self, places: int) -> Fraction:
        """What the digits under a bar add behind that many places."""
        self.expect("{")
        digits = self.take()
        self.expect("}")
        if not _is_digits(digits):
            raise Unreadable
        return Fraction(int(digits), (10 ** len(digits) - 1) * 10**places)

    def _fraction_of_mixed(self) -> Fraction | None:
        r"""The fraction right behind a whole number, as in 2\frac{1}{3} or 2 1/3."""
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
            if name not in _INVERSES:
                raise Unreadable
            return Apply(_INVERSES[name], applied.arguments)
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
        if token in _FUNCTION_NAMES and self.next == "(":
            raise Unreadable  # f(2x) is no product
        return Symbol(token)

    def _group(self) -> Iterator[str]:
        """The tokens of a group, braces within left out; without braces, the next token."""
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


def decimal(token: str) -> Fraction:
    """The exact value of a number token.

    Raises: Undefined if its power of ten is absurd.
    """
    _, _, exponent = token.lower().partition("e")
    if len(exponent.lstrip("+-0")) > 4:
        raise Undefined
    return Fraction(token)


_INVERSES = {
    r"\sin": r"\arcsin",
    r"\cos": r"\arccos",
    r"\tan": r"\arctan",
    r"\cot": r"\arccot",
}

# --- values ---------------------------------------------------------------------------------------


def symbols(expression: Expression) -> set[str]:
    """The variables of a formula; pi, e and i are none."""
    if isinstance(expression, Symbol):
        return set() if expression.name in _CONSTANTS else {expression.name}
    if isinstance(expression, Apply):
        return {name for argument in expression.arguments for name in symbols(argument)}
    return set()


def evaluate(expression: Expression, values: Mapping[str, Fraction]) -> Value:
    """The value of a formula.

    Args:
        expression: the formula.
        values: the value of each of its variables.

    Raises: Undefined if there is none.
    """
    with mpmath.workdps(DIGITS):
        try:
            return _value(expression, values)
        except (ArithmeticError, ValueError, TypeError) as error:
            raise Undefined from error


def _value(expression: Expression, values: Mapping[str, Fraction]) -> Value:
    if isinstance(expression, Number):
        return expression.value
    if isinstance(expression, Symbol):
        if expression.name in _CONSTANTS:
            return _CONSTANTS[expression.name]()
        return values[expression.name]
    arguments = [_value(argument, values) for argument in expression.arguments]
    value = _OPERATIONS[expression.operation](*arguments)
    if not isinstance(value, Fraction) and not mpmath.isfinite(value):
        raise Undefined
    return value


def _exact_if_small(value: Fraction) -> Value:
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    return value if bits < _LARGEST_EXACT else mpmath.mpf(value.numerator) / value.denominator


def _arithmetic(operation: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    """Exact on fractions that are not too long, approximate on everything else."""

    def apply(left: Value, right: Value) -> Value:
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            return _exact_if_small(operation(left, right))
        return operation(_mpmath(left), _mpmath(right))

    return apply


def _mpmath(value: Value) -> mpmath.mpf | mpmath.mpc:
    if isinstance(value, Fraction):
        return mpmath.mpf(value.numerator) / value.denominator
    return value


def _power(base: Value, exponent: Value) -> Value:
    if exponent == 0:
        return Fraction(1)
    if base == 0:
        if mpmath.re(_mpmath(exponent)) < 0:
            raise Undefined
        return Fraction(0)
    size = abs(mpmath.log(abs(_mpmath(base)), 2)) * abs(_mpmath(exponent))
    if size > _LARGEST_EXPONENT:
        raise Undefined
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        small = size + base.denominator.bit_length() < _LARGEST_EXACT
        if exponent.denominator == 1 and small and abs(exponent) < _LARGEST_EXACT:
            return base ** int(exponent)
    return mpmath.power(_mpmath(base), _mpmath(exponent))


def _root_of(radicand: Value, index: Value) -> Value:
    """The root that is written with a radical sign: real where there is a real one."""
    odd = isinstance(index, Fraction) and index.denominator == 1 and index.numerator % 2 == 1
    number = _mpmath(radicand)
    if odd and mpmath.im(number) == 0 and mpmath.re(number) < 0:
        return -_power(-number, 1 / _mpmath(index))
    return _power(number, 1 / _mpmath(index))


def _factorial(number: Value) -> Value:
    if not -_LARGEST_FACTORIAL < mpmath.re(_mpmath(number)) < _LARGEST_FACTORIAL:
        raise Undefined
    if isinstance(number, Fraction) and number.denominator == 1 and number >= 0:
        return Fraction(factorial(int(number)))
    return mpmath.gamma(_mpmath(number) + 1)


def _binomial(upper: Value, lower: Value) -> Value:
    below = _mpmath(_factorial(lower)) * _mpmath(_factorial(_OPERATIONS["-"](upper, lower)))
    return _mpmath(_factorial(upper)) / below


def _rounded(towards: Callable[[mpmath.mpf], mpmath.mpf]) -> Callable[[Value], Value]:
    def apply(number: Value) -> Value:
        if mpmath.im(_mpmath(number)) != 0:
            raise Undefined
        return Fraction(int(towards(mpmath.re(_mpmath(number)))))

    return apply


def _logarithm(number: Value, base: Value = Fraction(10)) -> Value:
    return mpmath.log(_mpmath(number)) / mpmath.log(_mpmath(base))


def _exponential(exponent: Value) -> Value:
    return _power(mpmath.e(), exponent)


_CONSTANTS: dict[str, Callable[[], Value]] = {
    r"\pi": lambda: +mpmath.pi,
    "e": lambda: +mpmath.e,
    "i": lambda: mpmath.mpc(0, 1),
}
_OPERATIONS: dict[str, Callable[..., Value]] = {
    "+": _arithmetic(lambda left, right: left + right),
    "-": _arithmetic(lambda left, right: left - right),
    "*": _arithmetic(lambda left, right: left * right),
    "/": _arithmetic(lambda left, right: left / right),
    r"\frac": _arithmetic(lambda left, right: left / right),
    "negate": lambda number: -number,
    "^": _power,
    "root": _root_of,
    "!": _factorial,
    "abs": lambda number: abs(number),
    r"\binom": _binomial,
    r"\lfloor": _rounded(mpmath.floor),
    r"\lceil": _rounded(mpmath.ceil),
    r"\degree": lambda number: _mpmath(number) * mpmath.pi / 180,
    r"\%": lambda number: number / 100,
    r"\log": _logarithm,
    r"\lg": _logarithm,
    r"\ln": lambda number: mpmath.log(_mpmath(number)),
    r"\exp": _exponential,
}
for _name, _function in {
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "cot": mpmath.cot,
    "sec": mpmath.sec,
    "csc": mpmath.csc,
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "arctan": mpmath.atan,
    "arccot": mpmath.acot,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
}.items():
    _OPERATIONS["\\" + _name] = lambda number, function=_function: function(_mpmath(number))

# --- equality -------------------------------------------------------------------------------------


def equal(left: Value, right: Value) -> bool:
    """Whether two values are the same: exactly, or to 45 digits where they are not exact."""
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left == right
    with mpmath.workdps(DIGITS):
        one, other = _mpmath(left), _mpmath(right)
        size = max(abs(one), abs(other))
        return bool(size < _CLOSE or abs(one - other) < _CLOSE * size)


def within(value: Value, centre: Fraction, distance: Fraction) -> bool:
    """Whether a value is real and no further from a fraction than a distance."""
    if isinstance(value, Fraction):
        return abs(value - centre) <= distance
    with mpmath.workdps(DIGITS):
        return bool(abs(value - _mpmath(centre)) <= _mpmath(distance))


def points(names: set[str]) -> Iterator[dict[str, Fraction]]:
    """Values for variables: three points where all are positive, then each one negative."""
    ordered = sorted(names)
    for shift in range(3 if names else 1):
        yield {
            name: Fraction(_PRIMES[(3 * place + shift) % len(_PRIMES)], 7 + 4 * shift)
            for place, name in enumerate(ordered)
        }
    for negative in ordered[:3]:
        yield {
            name: Fraction(_PRIMES[(3 * place + 1) % len(_PRIMES)], -13 if name == negative else 13)
            for place, name in enumerate(ordered)
        }


_PRIMES = [
    *(5, 11, 17, 23, 31, 41, 47, 59, 67, 73, 83, 97, 103, 109, 127, 137, 149, 157),
    *(167, 179, 191, 197, 211, 227, 233, 241, 257, 269, 277, 283),
]


def same(left: Expression, right: Expression) -> bool:
    """Whether two formulas agree wherever both can be compared."""
    compared = 0
    for point in points(symbols(left) | symbols(right)):
        try:
            one, other = evaluate(left, point), evaluate(right, point)
        except Undefined:
            continue
        if equal(one, other):
            compared += 1
        elif all(value >= 0 for value in point.values()) or _real(one) and _real(other):
            return False  # away from positive numbers, complex branches may differ
    return compared > 0


def _real(value: Value) -> bool:
    return isinstance(value, Fraction) or mpmath.im(value) == 0


def constant_ratio(left: Expression, right: Expression) -> Value | None:
    """The number by which the right formula is multiplied in the left one, if there is one."""
    names = symbols(left) | symbols(right)
    ratio: Value | None = None
    for point in points(names) if names else ():
        try:
            quotient = evaluate(Apply("/", (left, right)), point)
        except Undefined:
            continue
        if ratio is not None and not equal(ratio, quotient):
            return None
        ratio = quotient
    return ratio


def is_positive(value: Value) -> bool:
    return _real(value) and mpmath.re(_mpmath(value)) > 0
