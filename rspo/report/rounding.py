"""Numbers as text, with no more digits than their errors allow."""

import math

MINUS = "\u2212"


def decimals(error: float) -> int:
    """Decimals that show an error: two significant digits if it begins with 1 or 2, else one.

    Args:
        error: above 0. Without an error (0, NaN or infinity) the result is 3.
    """
    if not 0 < error < math.inf:
        return 3
    exponent = math.floor(math.log10(error))
    return (1 if error / 10**exponent < 3 else 0) - exponent


def rounded(value: float, error: float, signed: bool = False) -> str:
    """A value with the digits that its error allows.

    Args:
        signed: with its sign also where it is above 0.
    """
    places = decimals(error)
    near = round(value, places) or 0.0  # not -0.0
    text = f"{near:{'+' if signed and near else ''}.{max(0, places)}f}"
    return text.replace("-", MINUS)


def interval(low: float, high: float) -> str:
    """An interval, rounded by half of its width."""
    half = (high - low) / 2
    if any(end and round(end, decimals(half)) == 0 for end in (low, high)):
        half /= 10  # 0 would be wrong about whether the interval includes 0
    return f"{rounded(low, half)} to {rounded(high, half)}"


def plus_minus(value: float, low: float, high: float, signed: bool = True) -> str:
    """A value with half of the width of its interval."""
    half = (high - low) / 2
    return f"{rounded(value, half, signed)}\u00a0\u00b1\u00a0{rounded(half, half)}"


def p_value(p: float) -> str:
    """A p-value with two significant digits; the sign = or < comes first."""
    if p < 1e-4:
        return "< 0.0001"
    return "= 1" if p > 0.995 else f"= {p:.2g}"
