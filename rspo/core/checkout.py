"""Whether this process runs the code of the checkout in which it works."""

import re
from pathlib import Path

import rspo
from rspo.core.errors import InputError

_NAME = re.compile(r'^name = "rspo"$', flags=re.MULTILINE)


def is_checkout(folder: Path) -> bool:
    """Whether a folder has the source code of this package."""
    project = folder / "pyproject.toml"
    if not (folder / "rspo" / "__init__.py").is_file() or not project.is_file():
        return False
    return bool(_NAME.search(project.read_text(errors="replace")))


def package_folder() -> Path:
    """The folder from which this process imports `rspo`: a checkout, or that of a wheel."""
    return Path(rspo.__file__).resolve().parent.parent


def install_hint(extra: str) -> str:
    """The command that installs an extra of this package.

    It names the checkout, because a name alone would be looked up on a package index.
    """
    folder = package_folder()
    place = str(folder) if is_checkout(folder) else "<checkout>"
    return f"pip install '{place}[{extra}]'"


def named_checkout() -> str:
    """The folder of this package's checkout after a comma, for messages; empty if there is none."""
    folder = package_folder()
    return f", {folder}," if is_checkout(folder) else ""


def checkout_above(path: Path) -> Path | None:
    """The nearest folder above a file that is a checkout of this package; None if there is none."""
    for folder in path.resolve().parents:
        if is_checkout(folder):
            return folder
    return None


def require_same_checkout(folder: Path) -> None:
    """Check that a checkout is used with its own code.

    The environment of one checkout would run its own code with the config and the rules of another
    one, and provenance would name the commit of the former.

    Args:
        folder: the folder of a config or of a Snakefile. It need not be a checkout.

    Raises: InputError with both paths, if the folder is a checkout and this process imports `rspo`
        from another one. A wheel that is installed without a checkout is fine.
    """
    code = package_folder()
    here = folder.resolve()
    if here == code or not is_checkout(here) or not is_checkout(code):
        return
    raise InputError(
        f"the environment is that of {code}, the config and the rules are those of {here}: use the "
        "environment of the latter (`make setup` creates it, `source .venv/bin/activate` selects "
        "it), or work in the former"
    )
