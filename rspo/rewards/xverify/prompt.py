"""Download the judge's prompt from its authors' repository at a pinned commit.

Its licence (CC BY-NC-ND 4.0) does not allow a copy in this project.
"""

import ast
import string
import subprocess
import tempfile
from pathlib import Path

from rspo.config.schema import Upstream
from rspo.core.errors import InputError
from rspo.core.files import write_text

_FILE = "src/xVerify/prompts/judge_prompt.py"
_CONSTANT = "PROMPT"
_FIELDS = {"question", "output", "answer"}


def fetch_prompt(upstream: Upstream, path: Path) -> str:
    """Write the authors' prompt file at the pinned commit; returns its source.

    Raises: InputError if git cannot fetch that commit, or the file has an unexpected format.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            _git(folder, "init", "--quiet")
            # The repository has gigabytes of data besides this file.
            _git(folder, "remote", "add", "origin", upstream.repository)
            _git(
                folder, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin",
                upstream.commit,
            )  # fmt: skip
            source = _git(folder, "show", f"{upstream.commit}:{_FILE}")
        except subprocess.CalledProcessError as error:
            reason = " ".join(error.stderr.split())
            raise InputError(
                f"{upstream.repository} at commit {upstream.commit}: git could not fetch {_FILE} "
                f"({reason})"
            ) from None
    template_in(source, f"{upstream.repository}/{_FILE}")
    write_text(path, source)
    return f"{upstream.repository}/{_FILE} @ {upstream.commit}"


def _git(folder: str, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def read_prompt(path: Path, scale: str) -> str:
    """The prompt template of a file that `fetch_prompt` wrote.

    Raises: InputError if the file does not exist, with the command that downloads it.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file; `rspo fetch-prompt --scale {scale}` makes it")
    return template_in(path.read_text(), str(path))


def template_in(source: str, place: str) -> str:
    """The template that Python source assigns to PROMPT. The source is parsed, never executed.

    Raises: InputError if there is no template with exactly the fields question, output and answer.
    """
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise InputError(f"{place}: not Python ({error})") from None
    for statement in statements:
        if (
            isinstance(statement, ast.Assign)
            and [ast.unparse(target) for target in statement.targets] == [_CONSTANT]
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        ):
            template = statement.value.value
            fields = {field for _, field, _, _ in string.Formatter().parse(template) if field}
            if fields == _FIELDS:
                return template
            raise InputError(
                f"{place}: {_CONSTANT} has the fields {sorted(fields)}; expected {sorted(_FIELDS)}"
            )
    raise InputError(f"{place}: no text is assigned to {_CONSTANT}")
