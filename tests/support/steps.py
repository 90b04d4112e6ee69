"""Any step by the name of its command."""

from rspo.claims import catalogue
from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.step import Step


def step_of(experiment: Experiment, command: str, name: str = "") -> Step:
    """The step of a command; where it needs more, that of the first policy, suite and block.

    Args:
        name: the data set, model, cell or suite of the step.
    """
    policy, suite = experiment.evaluations[0]
    if command == "claims":
        return catalogue.step(experiment)
    words: dict[str, tuple[str | int, ...]] = {
        "sample": (policy, name, 0),
        "score": (policy, name, 0),
        "curves": (policy, suite),
        "gradients": (policy,),
    }
    make = getattr(steps, command.replace("-", "_"))
    made: Step = make(experiment, *words.get(command, (name,) if name else ()))
    return made
