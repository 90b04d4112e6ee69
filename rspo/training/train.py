"""Train a cell with the engine that the config names."""

from contextlib import AbstractContextManager, nullcontext

from rspo.config.experiment import Experiment
from rspo.training.cell import Engine, train_cell


def train(experiment: Experiment, name: str, force: bool = False) -> None:
    """Train one cell: write its policy folder, and training.jsonl with one line per step.

    A killed run resumes from its last checkpoint; with the local engine it ends in the same policy,
    bit for bit. On several nodes (verl), the first node trains, and the others return afterwards.

    Args:
        force: whether to replace a policy, and to start from step 1.

    Raises: InputError for missing or invalid inputs, when another process trains the same cell, and
        when the gradient is not finite; Stopped after a checkpoint, when a stop is requested;
        LostProcess when a process or node of the verl engine died.
    """
    with _engine_of_node(experiment.of_cell(name), name) as engine:
        if engine is not None:
            train_cell(experiment, name, engine, force)


def _engine_of_node(experiment: Experiment, name: str) -> AbstractContextManager[Engine | None]:
    """The engine on the node that trains; None on the others."""
    if experiment.config.engine == "verl":
        from rspo.training.verl.run import engine_of_node

        return engine_of_node(experiment, name)
    from rspo.training.local_engine import LocalEngine

    return nullcontext(LocalEngine(experiment, name))
