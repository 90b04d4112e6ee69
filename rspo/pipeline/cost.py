"""`rspo cost`: the time that every policy used, from the provenance beside its files."""

import json

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.core.tables import write_csv
from rspo.pipeline import tasks
from rspo.pipeline.provenance import SECONDS

# Provenance in a policy's folder, by step. The processes of training.jsonl are those of the policy.
_FILES = {
    "train": "policy.provenance.json",
    "sample": "samples/**/*.provenance.json",
    "score": "scores/**/*.provenance.json",
    "curves": "curves/**/*.provenance.json",
}


def write_cost_table(experiment: Experiment, force: bool = False) -> None:
    """Write tables/cost.csv, always: the time that was used is no setting."""
    step = tasks.cost(experiment)
    if not force:
        step.require_configured()
    write_csv(experiment.table("cost"), costs(experiment))
    step.record()


def costs(experiment: Experiment) -> pd.DataFrame:
    """A row for each policy and finished step: seconds of all its processes."""
    rows = [
        {"policy": policy, "step": step} | process
        for policy in experiment.policies
        for step, files in _FILES.items()
        for path in sorted(experiment.folder(policy).glob(files))
        for process in json.loads(path.read_text())["processes"]
    ]
    for row in rows:
        if row["step"] == "train" and experiment.is_base(row["policy"]):
            row["step"] = "pretrain"
    processes = pd.DataFrame(rows, columns=["policy", "step", *SECONDS])
    return processes.groupby(["policy", "step"], as_index=False, sort=False).sum().round(2)
