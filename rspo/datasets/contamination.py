"""`rspo contamination`: which problems stand in more than one set.

A problem of the training set that is also in a benchmark may have been learnt by heart; two
benchmarks that share problems are not two pieces of evidence. Every two sets are compared, train
with each benchmark and with validation, and those with each other: once for equal texts
(`exact`), once for texts that are copies of one problem (`normalized`, which includes the exact
ones; `rspo.datasets.normal_form` says what a copy is). Answers are not compared. What is not
found: problems that were reworded, translated, or given other numbers.
"""

import csv
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.config.schema import PROBLEM, DataSet
from rspo.core.files import atomic_write
from rspo.core.provenance import write_provenance
from rspo.core.tables import PROBLEMS, read_table
from rspo.datasets.normal_form import normal_form

COLUMNS = ("set_a", "set_b", "kind", "count", "ids_a", "ids_b")
KINDS: dict[str, Callable[[str], str]] = {"exact": str, "normalized": normal_form}

Texts = Mapping[str, str]  # of a set, by id of the problem


def contamination_table(experiment: Experiment) -> Path:
    """Where `write_contamination_table` writes."""
    return experiment.results / "tables" / "contamination.csv"


def write_contamination_table(experiment: Experiment) -> None:
    """Write a row for every two sets and kind of overlap, also where there is none.

    Raises: InputError for a set that is not prepared.
    """
    sets = {
        name: read_texts(experiment.problems(name), data_set)
        for name, data_set in experiment.data_sets.items()
    }
    path = contamination_table(experiment)
    with atomic_write(path) as partial, partial.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for kind, form in KINDS.items():
            forms = {
                name: {id: form(text) for id, text in texts.items()} for name, texts in sets.items()
            }
            for a, b in itertools.combinations(forms, 2):
                pairs = overlaps(forms[a], forms[b])
                ids_a, ids_b = (" ".join(pair[side] for pair in pairs) for side in (0, 1))
                writer.writerow((a, b, kind, len(pairs), ids_a, ids_b))
    inputs = [experiment.problems(name) for name in sets]
    write_provenance(path, fingerprints.settings(experiment, "contamination"), inputs=inputs)


def read_texts(path: Path, data_set: DataSet) -> dict[str, str]:
    """The problems of a prepared set by id, without the words that the set's prompt puts around.

    Raises: InputError if the file is missing or not such a table.
    """
    prompt = data_set.hub.prompt if data_set.hub is not None else PROBLEM
    before, after = prompt.split(PROBLEM)
    return {
        row["id"]: row["prompt"][0]["content"].removeprefix(before).removesuffix(after)
        for row in read_table(path, PROBLEMS)
    }


def overlaps(a: Texts, b: Texts) -> list[tuple[str, str]]:
    """Ids (of a, of b) of every two problems with equal texts, in the order of a, then of b."""
    ids_of: dict[str, list[str]] = {}
    for id, text in b.items():
        ids_of.setdefault(text, []).append(id)
    return [(id, other) for id, text in a.items() for other in ids_of.get(text, ())]
