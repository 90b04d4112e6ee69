"""Verifies verl's config of all cells in a separate process, without a GPU and without Ray.

    python -m rspo.training.verl.config_check < SECTION

SECTION is an experiment as JSON (`section_of`). The process is separate because verl reads
environment variables when it is imported. This process sets them, and those of the calling process
stay as they are.
"""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.training.verl.section import experiment_of, section_of


@dataclass
class ConfigCheck:
    """The result of verl's checks.

    problems: why cells cannot be trained with the installed packages, one line each.
    attention: the implementations of attention that the cells select.
    """

    problems: list[str] = field(default_factory=list)
    attention: list[str] = field(default_factory=list)


def check_configs(experiment: Experiment) -> ConfigCheck:
    """Verify the config of every cell, in a process that takes ten seconds."""
    command = [sys.executable, "-m", __name__]
    section = section_of(experiment, cell="")
    done = subprocess.run(command, input=json.dumps(section), capture_output=True, text=True)
    if done.returncode:
        message = done.stderr.strip() or "no message"
        last_line = message.splitlines()[-1]
        return ConfigCheck([f"verl's config could not be verified: {last_line}"])
    result = done.stdout.splitlines()[-1]  # libraries may print lines before it
    return ConfigCheck(**json.loads(result))


def main() -> None:
    """Read a section from standard input, and print its `ConfigCheck` as one line of JSON."""
    from rspo.training.verl.interface import require_attention
    from rspo.training.verl.run import verified_config

    experiment = experiment_of(json.load(sys.stdin))
    # What verl verifies depends on nothing else of a cell.
    cells = {(cell.model, cell.n, cell.variant): name for name, cell in experiment.cells.items()}
    check = ConfigCheck()
    for name in cells.values():
        try:
            config = verified_config(experiment.for_cell(name), name)
            attention = config.actor_rollout_ref.model.override_config.attn_implementation
            check.attention.append(attention)
            require_attention(attention)
        except InputError as error:
            check.problems.append(str(error))
    check.problems = list(dict.fromkeys(check.problems))  # without repetitions
    print(json.dumps(asdict(check)))


if __name__ == "__main__":
    main()
