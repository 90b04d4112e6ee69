"""Train a cell with the engine that the config names."""

from rspo.config.experiment import Experiment
from rspo.training.cell import Engine, train_cell


def train(experiment: Experiment, name: str, force: bool = False) -> None:
    """Train one cell: write its policy folder, and training.jsonl with one line per step.

    A killed run resumes from its last checkpoint; with the local engine it ends in the same policy,
    bit for bit.

    Args:
        force: whether to replace a policy, and to start from step 1.

    Raises: InputError for missing or invalid inputs, when another process trains the same cell, and
        when the gradient is not finite; Stopped after a checkpoint, when a stop is requested;
        LostProcess when a process of the verl engine died.
    """
    own = experiment.of_cell(name)
    train_cell(own, name, _engine(own, name), force)


def _engine(experiment: Experiment, name: str) -> Engine:
    if experiment.config.engine == "verl":
        from rspo.training.verl.run import VerlEngine

        return VerlEngine(experiment, name)
    from rspo.training.local_engine import LocalEngine

    return LocalEngine(experiment, name)
