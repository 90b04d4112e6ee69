"""Download the judge's model and its prompt, for nodes without network access."""

from pathlib import Path

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.core.hub import fetch_files
from rspo.core.provenance import Done
from rspo.rewards.xverify.prompt import fetch_prompt


def fetch_judge(experiment: Experiment, mirror: Path | None = None, force: bool = False) -> None:
    """Write the files of `xverify.model` to `results/SCALE/judge/model`.

    Raises: InputError if the config has no model to download, or the download fails.
    """
    step, settings = steps.fetch_judge(experiment), experiment.config.xverify
    assert settings is not None  # otherwise there is no such step

    def work() -> Done:
        with atomic_write(step.outputs[0]) as partial:
            origin = fetch_files(settings.model, settings.revision, partial, mirror)
        return Done(notes={"sources": [origin]})

    step.run(work, force)


def write_prompt(experiment: Experiment, force: bool = False) -> None:
    """Write the judge's prompt to `results/SCALE/judge/prompt.py`.

    Raises: InputError if the config has no judge, or the download fails.
    """
    step, settings = steps.fetch_prompt(experiment), experiment.config.xverify
    if settings is None:
        raise InputError(f"config/{experiment.scale}.yaml: has no section xverify")

    def work() -> Done:
        return Done(notes={"sources": [fetch_prompt(settings.prompt, step.outputs[0])]})

    step.run(work, force)
