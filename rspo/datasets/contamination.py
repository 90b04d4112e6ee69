"""`rspo contamination`: problems that are in more than one data set.

A policy may have memorized a benchmark problem that is also in the training set, and benchmarks
that have problems in common are not independent evidence. Every pair of sets is compared twice: by
equal texts (`exact`), and by equal normal forms (`normalized`, which includes the exact ones;
`rspo.datasets.normal_form` defines it). Answers are not compared. Problems that were reworded,
translated or given other numbers are not detected.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.tables import PROBLEMS, read_table, write_csv
from rspo.datasets.normal_form import normal_form

KINDS: dict[str, Callable[[str], str]] = {"exact": str, "normalized": normal_form}


def write_contamination_table(experiment: Experiment, force: bool = False) -> None:
    """Write a row for every pair of sets and kind of overlap, also where there is none.

    Raises: InputError for a set that is not prepared.
    """
    step, data_sets = steps.contamination(experiment), experiment.data_sets

    def work() -> None:
        texts = {name: read_texts(experiment.problems(name)) for name in data_sets}
        rows = []
        for kind, form in KINDS.items():
            forms = {
                name: {i: form(text) for i, text in one.items()} for name, one in texts.items()
            }
            for a, b in itertools.combinations(forms, 2):
                same = defaultdict[str, list[str]](list)
                for problem, text in forms[b].items():
                    same[text].append(problem)
                pairs = [(i, j) for i, text in forms[a].items() for j in same.get(text, ())]
                ids_a, ids_b = " ".join(i for i, _ in pairs), " ".join(j for _, j in pairs)
                rows.append((a, b, kind, len(pairs), ids_a, ids_b))
        columns = ["set_a", "set_b", "kind", "count", "ids_a", "ids_b"]
        write_csv(step.outputs[0], pd.DataFrame(rows, columns=columns))

    step.run(work, force)


def read_texts(path: Path) -> dict[str, str]:
    """The problem texts of a prepared set by id.

    Raises: InputError if the file is missing or not such a table.
    """
    return {row["id"]: row["prompt"][0]["content"] for row in read_table(path, PROBLEMS)}
