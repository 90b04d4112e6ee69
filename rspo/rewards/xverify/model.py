"""Download the judge's model, for servers on nodes without network access."""

from pathlib import Path

from rspo.config import fingerprints
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.core.hub import fetch_files
from rspo.core.provenance import write_provenance


def fetch_judge(experiment: Experiment, mirror: Path | None = None) -> None:
    """Write the files of `xverify.model` to `results/SCALE/judge/model`.

    Raises: InputError if the config has no model to download, or the download fails.
    """
    folder, settings = experiment.judge_model, experiment.config.xverify
    if folder is None or settings is None:
        raise InputError(
            f"config/{experiment.scale}.yaml: nothing to fetch; expected xverify.model with the id "
            "of a model on the hub, and xverify.url = null"
        )
    made_with = fingerprints.settings(experiment, "fetch-judge")
    experiment.require_replaceable(folder, made_with)
    with atomic_write(folder) as partial:
        origin = fetch_files(settings.model, settings.revision, partial, mirror)
    write_provenance(folder, made_with, notes={"sources": [origin]})
