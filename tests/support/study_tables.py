"""Tables of the studies with plausible numbers, without training or sampling."""

from itertools import product

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.config.schema import DEFAULT_VARIANT
from rspo.studies import STUDIES
from rspo.studies.measured import Row, frame_of
from rspo.studies.open_choices.table import setting
from tests.support.peers_table import peers_table

SIZES = {"seeds": 1, "problems": 890, "samples": 32, "cells": "a b"}
COMPARED = {"C1": "RSPO k=4 - Baseline k=4", "C3": "own k - other k", "C10": "RSPO - base"}


def study_table(experiment: Experiment, name: str) -> pd.DataFrame:
    """The table of a study of the config, as `rspo study` writes it."""
    if name == "peers":
        return peers_table(experiment)
    makers = {"open_choices": _open_choices, "wrong_verdicts": _wrong_verdicts}
    return frame_of(makers[name](experiment), list(STUDIES[name].columns))


def _interval(value: float, half: float = 0.012) -> Row:
    return {"estimate": value, "low": value - half, "high": value + half, **SIZES}


def _open_choices(experiment: Experiment) -> list[Row]:
    """Changes grow with the place of a variant in the config: 0 to 8 percentage points."""
    variants = dict.fromkeys(cell.variant for cell in experiment.cells_of("open_choices"))
    rows: list[Row] = []
    for place, variant in enumerate(variants):
        found: list[Row] = []
        for level, claim in enumerate(COMPARED):
            of_claim = {"claim": claim, "comparison": COMPARED[claim], "where": "pooled"}
            change = 0.0 if variant == DEFAULT_VARIANT else 0.005 * place * (-1) ** level
            kept = ("supported", "not resolved at this size", "contradicted")[(place * level) % 3]
            estimate = of_claim | _interval(0.05 * (level + 1) + change)
            found += [
                {"part": "claim", "k": "1 4 8", "verdict": kept} | estimate,
                {"part": "comparison", "k": "4", "outcome": "for", "p": 0.01} | estimate,
            ]
            if variant != DEFAULT_VARIANT:
                tested = {"part": "change", "k": "1 4 8", "p": 0.5**place, "family": "changes"}
                found.append(tested | of_claim | _interval(change))
        found += [
            {"part": "training", "comparison": method, "ppo_clipped": 0.001 * place}
            | {"gradient_clipped": 0.02 * place, "finished": 0.99, "seeds": 1, "cells": "a"}
            for method in ("PG", "RSPO k=4", "RSPO k=8", "Baseline k=4")
        ]
        rows += [setting(experiment, variant) | row for row in found]
    return rows


def _wrong_verdicts(experiment: Experiment) -> list[Row]:
    """False accepts cost RSPO k = 8 most; false rejects cost nothing."""
    methods = [("PG", "policy_gradient", None), ("RSPO k=4", "rspo_pass_at_k", 4)]
    methods += [("RSPO k=8", "rspo_pass_at_k", 8)]
    rates, kinds = (0.02, 0.05, 0.1), ("false accepts", "false rejects")
    rows: list[Row] = []
    for label, objective, k in methods:
        method: Row = {"method": label, "objective": objective, "trained_k": k, "n": 16}
        hurt = {"false accepts": -0.05 * (k or 1), "false rejects": 0.0}
        for at in ("1", "4", "8"):
            for errors in ("none", "control"):
                level = {"part": "level", "errors": errors, "rate": 0.0, "k": at}
                rows.append(method | level | _interval(0.5))
            control = {"part": "change", "errors": "control", "rate": 0.0, "k": at, "p": 0.5}
            rows.append(method | control | {"family": "changes"} | _interval(0.001))
            for kind, rate in product(kinds, rates):
                change = hurt[kind] * rate
                given = method | {"errors": kind, "rate": rate, "k": at}
                rows.append(given | {"part": "level"} | _interval(0.5 + change))
                p = {"p": 1e-6 if change < -0.01 else 0.5, "family": "changes"}
                rows.append(given | {"part": "change"} | _interval(change) | p)
        for kind, rate in (*product(kinds, rates), ("control", 0.0)):
            given = method | {"errors": kind, "rate": rate, "k": "1 4 8"}
            change = (hurt.get(kind, 0) + 0.05 * (kind == "false accepts")) * rate
            p = {"p": 1e-6 if change < -0.01 else 0.5, "family": "against policy gradient"}
            if k:
                rows.append(given | {"part": "against PG"} | _interval(change) | p)
        for rate in rates:
            given = method | {"rate": rate}
            p = {"p": 0.5, "family": "false accepts against false rejects"}
            both = {"part": "accepts - rejects", "errors": "both", "k": "1 4 8"}
            rows.append(given | both | _interval(-0.01) | p)
            for policy, grows in (("base", 1), ("trained", 2)):
                share = {"part": "share", "errors": "false accepts", "policy": policy}
                share |= {"share": min(1, rate * grows * (k or 1)), "of_success": float(k or 1)}
                rows.append(given | share)
        for rate, step in product((0.0, *rates), range(21)):
            weight = (k or 1) * ((1 - step / 20) * (1 - rate)) ** ((k or 1) - 1)
            rows.append(
                method
                | {"part": "weight", "errors": "false accepts", "rate": rate}
                | {"success": round(0.05 * step, 2), "weight": weight}
                | {"of_clean": (1 - rate) ** ((k or 1) - 1)}
            )
    return rows
