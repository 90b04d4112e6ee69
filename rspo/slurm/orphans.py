"""Update Snakemake's metadata of a cell that finished after its Snakemake process had ended.

Snakemake's metadata of such a cell, if any, has the settings of an earlier version, so Snakemake
would train the cell again. `rspo train` therefore writes the current settings there.
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
    """Write the settings that a cell was just trained with into its Snakemake metadata, if any.

    Depends on snakemake/persistence/file.py: `_record_path`, and the key `params`, which has the
    one parameter of rule train. Skips a path too long for a single file of metadata.
    """
    for path in (experiment.policy(cell), experiment.training_log(cell)):
        record = records / urlsafe_b64encode(str(path).encode()).decode()
        if os.path.isfile(record):  # `Path.is_file` raises for a long name
            content = json.loads(record.read_text())
            content["params"] = [repr(fingerprints.settings_hash(experiment, "train", cell))]
            write_text(record, json.dumps(content))
