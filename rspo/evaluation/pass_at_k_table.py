"""Pass@k of a file of verified responses, as lines to print."""

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from rspo.evaluation.curve_points import curve_points
from rspo.evaluation.outcomes import Outcomes

RESAMPLES, SEED = 1000, 0
_LONGEST = 60  # characters of a problem that are shown


def default_ks(responses: Iterable[int]) -> list[int]:
    """1, 2, 4, ... up to the smallest number of responses, so that no problem is left out."""
    return [2**power for power in range(min(responses).bit_length())]


def pass_at_k_table(outcomes: Outcomes, ks: Sequence[int]) -> Iterator[str]:
    """Lines with Pass@k and pass^k at each k, with errors, and which problems are left out.

    Raises: InputError for a k below 1, or above every problem's number of responses.
    """
    last = f"{'95 % interval':<16}{'pass^k':>8}{'error':>9}"
    yield f"{'k':>5}{'Pass@k':>10}{'error':>9}{'within':>9}  {last}"
    points, hats = (
        curve_points(outcomes, [metric], ks, RESAMPLES, SEED)
        for metric in ("pass_at_k", "pass_hat_k")
    )
    for point, hat in zip(points, hats, strict=True):
        errors = number(point["error_total"], 9) + number(point["error_within"], 9)
        known = not np.isnan(point["error_total"])  # one problem says nothing about others
        interval = f"{point['low']:.3f} to {point['high']:.3f}" if known else "-"
        all_correct = f"{hat['estimate']:>8.3f}{number(hat['error_total'], 9)}"
        yield f"{point['k']:>5}{point['estimate']:>10.3f}{errors}  {interval:<16}{all_correct}"
    yield "pass^k: all k responses are correct"
    yield "error: standard error over problems; within: of sampling, for the same problems"
    yield from left_out(outcomes.responses, [short(name) for name in outcomes.names], ks)


def left_out(
    responses: NDArray[np.int64], titles: Sequence[str], ks: Sequence[int]
) -> Iterator[str]:
    """Lines that say how many problems each k leaves out, and the next larger k.

    Args:
        responses: number of responses to each problem.
    """
    for k in ks:
        without = np.flatnonzero(responses < k)
        if len(without):
            name = titles[without[0]]
            fewer = counted(len(without))
            yield f"k = {k} leaves out {fewer} with fewer responses, such as {name}"
    largest = max(ks)
    if responses.min() < 2 * largest <= responses.max():
        fewer = counted(int((responses < 2 * largest).sum()))
        yield f"--k {2 * largest} would leave out {fewer} with fewer responses"


def number(value: float, width: int) -> str:
    """A value with three decimals, or - where it cannot be estimated."""
    return f"{'-' if np.isnan(value) else f'{value:.3f}':>{width}}"


def short(text: str) -> str:
    """The beginning of a problem's text in one line, in quotation marks."""
    line = "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))
    return f'"{line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."}"'


def counted(problems: int) -> str:
    """`1 problem`, `2 problems`."""
    return f"{problems} problem{'s' * (problems != 1)}"


def span(values: Collection[int]) -> str:
    """`8`, or `4 to 8`."""
    return " to ".join(dict.fromkeys(str(value) for value in (min(values), max(values))))
