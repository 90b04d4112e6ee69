"""Any step by the name of its command, and provenance for files that a test wrote."""

import json
from collections.abc import Iterable
from pathlib import Path

from rspo.analysis import claims
from rspo.config.experiment import Experiment
from rspo.core.files import digest
from rspo.pipeline import tasks
from rspo.pipeline.provenance import provenance_path, read_provenance, size_of, sizes_in
from rspo.pipeline.task import Task


def task_of(experiment: Experiment, command: str, name: str = "") -> Task:
    """The task of a command; where it needs more, that of the first policy, suite and block.

    Args:
        name: the data set, model, cell or suite of the task.
    """
    policy, suite = experiment.evaluations[0]
    if command == "claims":
        return claims.task(experiment)
    words: dict[str, tuple[str | int, ...]] = {
        "sample": (policy, name, 0),
        "score": (policy, name, 0),
        "curves": (policy, suite),
    }
    make = getattr(tasks, command.replace("-", "_"))
    made: Task = make(experiment, *words.get(command, (name,) if name else ()))
    return made


def attest(inputs: Iterable[tuple[Path, Task]]) -> None:
    """Give files that a test wrote the provenance of their steps, whose inputs may not exist."""
    for path, maker in inputs:
        if path.exists():
            inputs = {
                str(file): read_provenance(file).get("digest", "") for file in maker.input_files
            }
            note = {"settings": maker.settings, "inputs": inputs, "packages": {}, "notes": {}}
            note |= {"file": str(path), "digest": digest(path), "bytes": size_of(path)}
            note |= {"command": ["rspo", "test"]}
            note |= dict.fromkeys(["settings_hash", "git_commit", "written", "host"], "")
            provenance_path(path).write_text(json.dumps(note))


def adopt(path: Path) -> None:
    """Record an edited result as if its step had made it, also where other results read it."""
    project = next(folder for folder in path.absolute().parents if (folder / "config").is_dir())
    now = digest(path)
    for file in project.rglob("*.provenance.json"):
        note = json.loads(file.read_text())
        if str(path) in note["inputs"]:
            note["inputs"][str(path)] = now
        if file.absolute() == provenance_path(path).absolute():
            note |= {"digest": now, "bytes": size_of(path)}
            note |= {"files": sizes_in(path)} if path.is_dir() else {}
        file.write_text(json.dumps(note))
