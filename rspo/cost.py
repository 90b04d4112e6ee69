"""What every policy really used, from the provenance notes beside its files."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from rspo.core.files import atomic_write
from rspo.core.provenance import write_provenance

COLUMNS = ("policy", "step", "wall_seconds", "cpu_seconds", "gpu_seconds", "host", "jobs")
_SECONDS = ("wall_seconds", "cpu_seconds", "gpu_seconds")


def cost_table(experiment: Experiment) -> Path:
    """Where `write_cost_table` writes."""
    return experiment.results / "tables" / "cost.csv"


def write_cost_table(experiment: Experiment) -> None:
    """Write one row for each policy and step: seconds of all processes that worked at it.

    What is not there yet has no row.
    """
    path = cost_table(experiment)
    with atomic_write(path) as partial, partial.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(costs(experiment))
    curves = [experiment.curves(*pair) for pair in experiment.evaluations]
    write_provenance(
        path,
        {"policies": len(experiment.policies)},
        inputs=[path for path in curves if path.is_file()],
    )


def costs(experiment: Experiment) -> Iterator[dict[str, Any]]:
    """The rows: policies in the experiment's order, steps in the order of the work."""
    for policy in experiment.policies:
        folder = experiment.folder(policy)
        making = "train" if policy in experiment.cells else "pretrain"
        # training.jsonl is the same processes' work as the policy.
        steps = {making: [folder / "policy.provenance.json"]}
        for step, place in (("sample", "samples"), ("score", "scores"), ("curves", "curves")):
            steps[step] = sorted((folder / place).rglob("*.provenance.json"))
        for step, notes in steps.items():
            if found := [json.loads(note.read_text()) for note in notes if note.is_file()]:
                yield {"policy": policy, "step": step, **_sum(found)}


def _sum(notes: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the files of one step; a note of before processes were counted is one process."""
    processes = [process for note in notes for process in note.get("processes", [note])]
    return {
        **{key: round(sum(process[key] for process in processes), 2) for key in _SECONDS},
        "host": " ".join(sorted({process["host"] for process in processes})),
        "jobs": " ".join(sorted({p["job"] for p in processes if p.get("job")}, key=_by_number)),
    }


def _by_number(job: str) -> tuple[int, str]:
    return (len(job), job)


def summary(experiment: Experiment) -> str:
    """The table in few lines: each policy's wall clock and GPU hours, and their sum."""
    rows = list(costs(experiment))
    if not rows:
        return f"nothing of scale {experiment.scale} is there yet"
    width = max(len(row["policy"]) for row in rows)
    lines = [f"{'':{width}}      wall h       cpu h       GPU h"]
    for policy in [*dict.fromkeys(row["policy"] for row in rows), "all"]:
        own = [row for row in rows if policy in (row["policy"], "all")]
        hours = [sum(row[key] for row in own) / 3600 for key in _SECONDS]
        lines.append(f"{policy:{width}}" + "".join(f"{value:12,.2f}" for value in hours))
    return "\n".join(lines)
