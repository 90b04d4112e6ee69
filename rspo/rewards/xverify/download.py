"""Download the judge's model and its prompt, for nodes without network access.

This project has no copy of the prompt, because its licence (CC BY-NC-ND 4.0) does not allow one.
"""

import ast
import string
import subprocess
import tempfile
from pathlib import Path

from rspo.config.experiment import Experiment
from rspo.config.schema import Upstream
from rspo.core.errors import InputError
from rspo.core.files import atomic_write
from rspo.core.hub import fetch_files
from rspo.pipeline import tasks
from rspo.pipeline.run import run
from rspo.pipeline.task import Done

_FILE = "src/xVerify/prompts/judge_prompt.py"  # the prompt in the authors' repository
_FIELDS = {"question", "output", "answer"}  # fields of the prompt; `output` is the response


def fetch_judge(experiment: Experiment, mirror: Path | None = None, force: bool = False) -> None:
    """Write the judge's prompt and, unless the config names a running server, its model.

    `results/SCALE/judge` gets `prompt.py`, the authors' file at the pinned commit, and the folder
    `model`.

    Args:
        mirror: folder with models, which are otherwise downloaded.
    """
    task = tasks.fetch_judge(experiment)
    settings = experiment.config.xverify
    assert settings is not None  # otherwise there is no such task
    prompt, *model = task.outputs  # `model` is empty if the config names a running server

    def work() -> Done:
        source, origin = _file_at_commit(settings.prompt)
        template_in(source, origin)
        sources = [origin]
        # The prompt is renamed into place when its block ends, after the model. If the file of the
        # prompt exists, the model is therefore complete too.
        with atomic_write(prompt) as file:
            file.write_text(source)
            for folder in model:
                with atomic_write(folder) as partial:
                    sources.append(fetch_files(settings.model, settings.revision, partial, mirror))
        return Done(notes={"sources": sources})

    run(task, work, force)


def _file_at_commit(upstream: Upstream) -> tuple[str, str]:
    """Download the authors' file. Returns its text and its origin, for messages and provenance."""
    origin = f"{upstream.repository}/{_FILE} @ {upstream.commit}"
    # Fetch the commit without its files, because the repository has gigabytes of data. `git show`
    # then downloads this file only.
    fetch = ["fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", upstream.commit]
    with tempfile.TemporaryDirectory() as folder:
        for arguments in (
            ["init", "--quiet"],
            ["remote", "add", "origin", upstream.repository],
            fetch,
            ["show", f"{upstream.commit}:{_FILE}"],
        ):
            command = ["git", "-C", folder] + arguments
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                reason = " ".join(done.stderr.split())
                raise InputError(f"{origin}: git could not fetch it ({reason})")
    return done.stdout, origin


def template_in(source: str, place: str) -> str:
    """The text that Python source assigns to PROMPT. The source is parsed, but never executed.

    Args:
        place: where the source is, for messages.

    Raises: InputError unless the text has exactly the fields of a prompt.
    """
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise InputError(f"{place}: not Python ({error})") from None
    for statement in statements:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id="PROMPT")], value=ast.Constant(value=str(template))
            ):
                fields = {field for _, field, _, _ in string.Formatter().parse(template) if field}
                if fields == _FIELDS:
                    return template
    raise InputError(f"{place}: PROMPT is no text with the fields {', '.join(sorted(_FIELDS))}")
