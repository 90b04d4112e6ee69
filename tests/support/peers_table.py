"""A table of the study `peers` with plausible numbers, without training or sampling."""

import math

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.objectives import OBJECTIVES
from rspo.studies import STUDIES


def peers_table(experiment: Experiment) -> pd.DataFrame:
    """RSPO's rows, those of the other objectives, of several epochs, and of the base model."""
    columns = list(STUDIES["peers"].columns)
    cells = experiment.cells_of("peers")
    n = max(cell.n for cell in cells)
    keys = list(dict.fromkeys((cell.objective, cell.k) for cell in cells if cell.n == n))
    rows: list[dict[str, object]] = []
    for k in experiment.config.evaluation.k:
        rows.append({"part": "base", "objective": "base"} | _level(experiment, 0.16, k))
        for place, (objective, trained_k) in enumerate(keys):
            for against in ("rspo", "base"):
                rows.append(
                    _row(experiment, objective, trained_k, n, place, k)
                    | {"part": "objectives", "against": against}
                )
                if place == 0 and against == "rspo":  # RSPO itself
                    rows[-1] |= dict.fromkeys(("difference", "low", "high", "p", "p_adjusted"))
                    rows[-1] |= {"family": "", "tests": None}
        base, same = "base", "as many updates"
        for epochs, steps, against in (
            *((1, 150, base), (2, 150, base), (4, 150, base), (4, 150, same), (1, 600, base)),
        ):
            rows.append(
                _row(experiment, "rspo_pass_at_k", 4, 8, 3, k)
                | {"part": "epochs", "against": against, "epochs": epochs, "steps": steps}
            )
    rows.append({"part": "left out", "objective": "tailrl", "same_as": "maxrl_uncentred"})
    return pd.DataFrame(rows, columns=columns)


def _level(experiment: Experiment, first: float, k: int) -> dict[str, object]:
    return {
        "k": k,
        "pass_at_k": 1 - (1 - first) ** (k**0.7),
        "error": 0.01,
        "problems": 890,
        "samples": experiment.config.evaluation.samples,
        "cells": f"cells of {first}",
    }


def _row(
    experiment: Experiment, objective: str, trained_k: int, n: int, place: int, k: int
) -> dict[str, object]:
    p_adjusted = min(1.0, 0.008 * (place % 7) * math.log2(2 * k))
    return _level(experiment, 0.3 - 0.005 * place, k) | {
        "objective": objective,
        "trained_k": trained_k if OBJECTIVES[objective].has_k else None,
        "n": n,
        "epochs": 1,
        "steps": 150,
        "learning_rate": (6.7e-5, 2e-4, 6e-4)[place % 3],
        "rates": "6.7e-05 0.0002 0.0006",
        "rate_is": ("lowest", "inner", "highest")[place % 3],
        "validation": 0.5,
        "difference": -0.004 * place,
        "low": -0.004 * place - 0.012,
        "high": -0.004 * place + 0.012,
        "p": p_adjusted / 5,
        "family": "objectives against RSPO",
        "tests": 5,
        "p_adjusted": p_adjusted,
        "entropy": 0.2 + 0.01 * (place % 9),
        "zero_weight": 0.1 * (place % 10),
        "seconds": 0.08 + 0.005 * place,
        "variance": 1.0 + place,
        "noise": 10.0 + 7 * place,
        "noise_low": 9.0 + 6 * place,
        "noise_high": 11.0 + 8 * place,
        "same_as": "",
        "seeds": experiment.config.seeds,
    }
