"""The base policy, from the hub or a mirror, and the problems."""

from math import prod

from safetensors import safe_open

from rspo.config.experiment import base_name
from rspo.core.tables import PROBLEMS, read_table
from rspo.gpu_check.settings import Settings


def check(settings: Settings) -> str:
    experiment = settings.experiment()
    for name in experiment.data_sets:
        settings.rspo("prepare", name)
    mirror = [f"--mirror={settings.mirror}"] if settings.mirror else []
    settings.rspo("pretrain", settings.model, *mirror)
    problems = sum(
        len(read_table(experiment.problems(name), PROBLEMS)) for name in experiment.data_sets
    )
    parameters = 0
    for file in experiment.policy(base_name(settings.model)).glob("*.safetensors"):
        with safe_open(file, "pt") as weights:
            names = weights.keys()
            parameters += sum(prod(weights.get_slice(name).get_shape()) for name in names)
    hub = experiment.config.models[settings.model].hub
    source = hub.id if hub else settings.model
    return f"{source}, {parameters / 1e6:.0f}M parameters; {problems} problems"
