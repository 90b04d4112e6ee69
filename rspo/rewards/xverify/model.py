"""Download the judge's model, for servers on nodes without network access."""

from pathlib import Path

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.files import atomic_write
from rspo.core.hub import fetch_files


def fetch_judge(experiment: Experiment, mirror: Path | None = None, force: bool = False) -> None:
    """Write the files of `xverify.model` to `results/SCALE/judge/model`.

    Raises: InputError if the config has no model to download, or the download fails.
    """
    step, settings = steps.fetch_judge(experiment), experiment.config.xverify
    assert settings is not None  # otherwise there is no such step
    if step.is_due(force):
        with atomic_write(step.outputs[0]) as partial:
            origin = fetch_files(settings.model, settings.revision, partial, mirror)
        step.record(notes={"sources": [origin]})
