"""Cells that a job finished after its Snakemake had gone.

Such a cell has Snakemake's record of an earlier version, if any; with other settings in it,
Snakemake would train the cell again. So whoever trains a cell writes them there.
"""

import json
import os
from base64 import urlsafe_b64encode
from pathlib import Path

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.files import write_text

RECORDS = Path(".snakemake") / "metadata"


def renew_records(experiment: Experiment, cell: str, records: Path = RECORDS) -> None:
    """Put the settings of now into Snakemake's records, if any, of a cell just trained with them.

    Depends on snakemake/persistence/file.py (`_record_path`, and the key `params`, which has the
    one parameter of rule train); a name too long for it to be one file is left alone.
    """
    for path in (experiment.policy(cell), experiment.training_log(cell)):
        record = records / urlsafe_b64encode(str(path).encode()).decode()
        if os.path.isfile(record):  # `Path.is_file` raises for a long name
            found = json.loads(record.read_text())
            found["params"] = [repr(fingerprints.settings_hash(experiment, "train", cell))]
            write_text(record, json.dumps(found))
