"""The curves of every policy as one CSV, and a reader for one of them."""

import csv
from pathlib import Path
from typing import Any

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.files import atomic_write
from rspo.core.provenance import write_provenance
from rspo.core.tables import CURVES, read_table

# What a policy is, beside the columns of CURVES; empty where a base policy has none.
_POLICY_COLUMNS = ("suite", "model", "objective", "training_k", "n", "reward", "seed")


def read_curves(experiment: Experiment, policy: str, suite: str) -> list[dict[str, Any]]:
    """Rows of a policy's curves.

    Raises: InputError if they are missing or not such a table.
    """
    return read_table(experiment.curves(policy, suite), CURVES)


def curves_table(experiment: Experiment) -> Path:
    """Where `write_curves_table` writes."""
    return experiment.results / "tables" / "curves.csv"


def write_curves_table(experiment: Experiment) -> None:
    """Write every curve of every policy of the grid, with what the policy is.

    Raises: InputError for a policy whose curves are missing.
    """
    pairs = experiment.evaluations
    rows = [
        row | _describe(experiment, policy, suite)
        for policy, suite in pairs
        for row in read_curves(experiment, policy, suite)
    ]
    path = curves_table(experiment)
    with atomic_write(path) as partial, partial.open("w", newline="") as stream:
        writer = csv.DictWriter(
            stream, [*CURVES.schema.names, *_POLICY_COLUMNS], lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(rows)
    inputs = [experiment.curves(policy, suite) for policy, suite in pairs]
    write_provenance(path, fingerprints.settings(experiment, "curves"), inputs=inputs)


def _describe(experiment: Experiment, policy: str, suite: str) -> dict[str, Any]:
    if policy not in experiment.cells:
        described = dict.fromkeys(_POLICY_COLUMNS, "")
        return described | {
            "suite": suite,
            "model": experiment.model_of(policy),
            "objective": "base",
        }
    cell = experiment.cell(policy)
    return {
        "suite": suite,
        "model": cell.model,
        "objective": cell.objective,
        "training_k": cell.k,
        "n": cell.n,
        "reward": cell.reward,
        "seed": cell.seed,
    }
