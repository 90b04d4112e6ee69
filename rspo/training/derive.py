"""`rspo derive`: the policy of a cell that is made from a trained one, without a training.

The weights are the average

    (1 - base_share) * trained + base_share * base

of those of a trained cell and of the base policy with which its training began. With base_share 0,
the policy is a copy, whose responses may be sampled at another temperature.
"""

import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.pipeline import tasks
from rspo.pipeline.run import run

WEIGHTS = "*.safetensors"


def derive(experiment: Experiment, name: str, force: bool = False) -> None:
    """Write the policy folder of a derived cell.

    Raises: InputError for a cell that is trained, and if the weights of the two policies differ in
        name or shape.
    """
    task = tasks.derive(experiment, name)
    (policy,) = task.outputs
    cell = experiment.cell(name)
    trained = experiment.files.policy(experiment.source_of(cell).name)
    base = experiment.files.policy(experiment.base_of(cell))
    share = experiment.derivation_of(cell).base_share

    def work() -> None:
        with atomic_write(policy) as partial:
            write_average(trained, base, share, partial)

    run(task, work, force)


def write_average(trained: Path, base: Path, base_share: float, folder: Path) -> None:
    """Write the average of two policies into a folder, with the tokenizer of the trained one.

    Args:
        base_share: the weight of the base policy, between 0 and 1.

    Raises: InputError if their tensors differ in name or shape.
    """
    # Snakemake keeps the time of a folder in a file inside it, which must not be copied.
    ignored = shutil.ignore_patterns(".snakemake*", WEIGHTS)
    shutil.copytree(trained, folder, ignore=ignored, dirs_exist_ok=True)
    of_base: dict[str, Tensor] = {}
    for file in sorted(base.glob(WEIGHTS)):
        of_base |= load_file(file)
    for file in sorted(trained.glob(WEIGHTS)):
        averaged = {}
        for name, tensor in load_file(file).items():
            other = of_base.get(name)
            if other is None or other.shape != tensor.shape:
                raise InputError(f"{file}: {base} has no tensor {name} of this shape to average")
            averaged[name] = ((1 - base_share) * tensor + base_share * other).to(tensor.dtype)
        save_file(averaged, folder / file.name, metadata={"format": "pt"})
