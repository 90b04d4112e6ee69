"""`rspo plan --memory`: the memory of one GPU in training, by `rspo.training.verl.memory`."""

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.gpus import GPUS
from rspo.training.verl.config_check import check_configs


def text(experiment: Experiment) -> str:
    """A row for each model and phase, in GB, and a line for each model that does not fit.

    Raises: InputError without a model on GPUs, and if verl rejects the config.
    """
    check, verl = check_configs(experiment), experiment.config.verl
    if not check.memory or verl is None:
        hint = "expected verl.device: cuda, and models.<name>.shape"
        raise InputError("\n".join(check.problems) or hint)
    lines = [
        f"GB on each of {verl.ranks} GPUs of {GPUS[verl.gpu].memory / 1e9:.0f} GB (verl.gpu = "
        f"{verl.gpu}); estimated, not measured"
    ]
    for model, memory in check.memory.items():
        kinds = [*memory.phases["update"], "all"]
        lines.append(
            f"{model}, passes of {memory.tokens:,} tokens and {memory.flops / 1e12:.0f} TFLOP"
        )
        lines.append(f"{'':20}" + "".join(f"{kind:>12}" for kind in kinds))
        for phase, of in memory.phases.items():
            sizes = [*of.values(), sum(of.values())]
            lines.append(f"  {phase:18}" + "".join(f"{size / 1e9:12.1f}" for size in sizes))
    return "\n".join([*lines, *check.problems])
