"""`rspo cost`: the time that every policy used, read from the provenance beside its files."""

import json

import pandas as pd

from rspo.config.experiment import Experiment
from rspo.core.tables import write_csv
from rspo.pipeline import tasks
from rspo.pipeline.run import record, require_configured
from rspo.pipeline.usage import SECONDS

# The provenance files that each task writes into a policy's folder; `costs` calls the first task
# `pretrain` for a base policy.
_FILES = {
    "train": "policy.provenance.json",
    "sample": "samples/**/*.provenance.json",
    "score": "scores/**/*.provenance.json",
    "curves": "curves/**/*.provenance.json",
}
# A training also writes training.jsonl, whose provenance names the same processes, so reading both
# would count them twice. A cell whose responses are not evaluated has only this one if its results
# were restored from evidence.
_LOG = "training.jsonl.provenance.json"


def write_cost_table(experiment: Experiment, force: bool = False) -> None:
    """Write tables/cost.csv.

    This writes the table in any case. Its provenance cannot tell whether it is current, because
    neither the settings of the task nor the contents of its inputs include the times.

    Args:
        force: also write it if the command line gives other settings than the config.
    """
    task = tasks.cost(experiment)
    if not force:
        require_configured(task)
    write_csv(experiment.files.table("cost"), costs(experiment))
    record(task)


def costs(experiment: Experiment) -> pd.DataFrame:
    """A row for each policy and task, with the seconds of all processes that worked on it.

    Returns: the columns `policy`, `step` (the name of the task) and one for each name in `SECONDS`.
    """
    rows = []
    for policy in experiment.policies:
        for task_name, files in _FILES.items():
            if task_name == "train" and experiment.is_base(policy):
                task_name = "pretrain"
            folder = experiment.files.folder(policy)
            found = sorted(folder.glob(files))
            if task_name == "train" and not found:
                found = sorted(folder.glob(_LOG))
            for path in found:
                for process in json.loads(path.read_text())["processes"]:
                    rows.append({"policy": policy, "step": task_name} | process)
    processes = pd.DataFrame(rows, columns=["policy", "step"] + list(SECONDS))
    return processes.groupby(["policy", "step"], as_index=False, sort=False).sum().round(2)
