"""The section `rspo` of verl's config: a cell and its experiment, for verl's processes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rspo.config.experiment import Experiment
from rspo.config.files import Files
from rspo.config.load import config_of


def section_of(experiment: Experiment, cell: str) -> dict[str, Any]:
    """The section for a cell, as data that YAML and JSON can hold.

    Paths are absolute, because verl's processes may run in another folder.
    """
    return {
        "scale": experiment.scale,
        "cell": cell,
        "results": str(experiment.files.results.absolute()),
        "root": str(experiment.root.absolute()),
        # Only the keys that were set: `experiment_of` fills in the defaults.
        "config": experiment.config.model_dump(mode="json", exclude_unset=True),
    }


def experiment_of(section: Mapping[str, Any]) -> Experiment:
    """Make the experiment from its section, which is a `dict` or an OmegaConf object.

    This imports the extensions that the config names, so that their objectives and rewards exist in
    this process too.
    """
    values: Any = section
    if not isinstance(section, dict):
        from omegaconf import OmegaConf

        values = OmegaConf.to_container(section, resolve=True)
    root = Path(values["root"])
    scale = values["scale"]
    config = config_of(values["config"], root, f"config/{scale}.yaml")
    files = Files(Path(values["results"]), Path())  # a training writes no reports
    return Experiment(scale, config, files, root)
