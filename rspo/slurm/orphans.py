"""Cells that a job finished after its Snakemake had gone.

Such a cell has Snakemake's record of an earlier version, if any; with other settings in it,
Snakemake would train the cell again. The note beside the cell knows better.
"""

import json
from base64 import urlsafe_b64encode
from pathlib import Path

from rspo.experiment import Experiment
from rspo.files import write_text

RECORDS = Path(".snakemake") / "metadata"


def renew_records(experiment: Experiment, records: Path = RECORDS) -> None:
    """Put the settings of now into Snakemake's records of cells that were trained with them since.

    Depends on snakemake/persistence/file.py (`_record_path`, and the key `params`, which has the
    one parameter of rule train); a name too long for it to be one file is left alone.
    """
    if not records.is_dir():
        return
    for cell in experiment.cells:
        for path in (experiment.policy(cell), experiment.training_log(cell)):
            record = records / urlsafe_b64encode(str(path).encode()).decode()
            note = path.with_name(f"{path.name}.provenance.json")
            if _is_older(record, note) and _settings_in(note) == _plain(
                experiment.settings("train", cell)
            ):
                found = json.loads(record.read_text())
                found["params"] = [repr(experiment.settings_hash("train", cell))]
                write_text(record, json.dumps(found))


def _is_older(record: Path, note: Path) -> bool:
    try:
        return record.stat().st_mtime < note.stat().st_mtime
    except OSError:  # one of them is not there
        return False


def _settings_in(note: Path) -> object:
    return json.loads(note.read_text())["settings"]["settings"]


def _plain(settings: object) -> object:
    """As they come back from a file."""
    return json.loads(json.dumps(settings, default=str))
