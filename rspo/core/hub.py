"""Copy the files of a model from the Hugging Face hub, or from a folder that mirrors it.

A mirror has a folder for each model, named as on the hub, such as MIRROR/Qwen/Qwen2.5-Math-1.5B.
"""

import shutil
from pathlib import Path

from rspo.core.errors import InputError

# Config, tokenizer and weights. Other files are left out: many repositories have the same weights
# in other formats too.
_FILES = ("*.json", "*.safetensors", "*.txt", "*.jinja")


def fetch_files(name: str, revision: str | None, folder: Path, mirror: Path | None = None) -> str:
    """Copy a model's files from a mirror, or from the hub if the mirror lacks them.

    Args:
        name: the model's name on the hub, such as `Qwen/Qwen2.5-Math-1.5B`.
        revision: a commit of the hub's repository; None for the newest. A mirror has one revision
            of each model, which is not compared with this one.
        folder: the folder that gets the files; it is created if needed.
        mirror: the mirror; None if the hub is the only source.

    Returns: the source, such as "https://huggingface.co/NAME @ REVISION".

    Raises: InputError if the model cannot be downloaded or lacks files.
    """
    if mirror is not None and not mirror.is_dir():
        raise InputError(f"mirror = {mirror}: no such folder")
    mirrored = None if mirror is None else mirror / name
    if mirrored is not None and mirrored.is_dir():
        source = mirrored
        origin = str(mirrored)
    else:
        source = _download(name, revision, mirrored)
        origin = f"https://huggingface.co/{name}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = {path for pattern in _FILES for path in source.glob(pattern)}
    for path in sorted(paths):
        shutil.copyfile(path, folder / path.name)
    # An interrupted copy of a mirror lacks files, which loading the model would report badly.
    for pattern in ("config.json", "tokenizer.json", "*.safetensors"):
        if not list(folder.glob(pattern)):
            raise InputError(f"{source}: has no {pattern}; expected the files of {name}")
    return f"{origin} @ {revision or 'main'}"


def _download(name: str, revision: str | None, mirrored: Path | None) -> Path:
    """Download a model's files and return their folder.

    Args:
        mirrored: the folder where the mirror could have the model, for the message of the error;
            None if there is no mirror.
    """
    from huggingface_hub import snapshot_download

    try:  # the library's cache resumes an interrupted download
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(_FILES)))
    except Exception as error:  # the library raises errors of several packages
        raise InputError(
            f"{name} could not be downloaded from the hub: {' '.join(str(error).split())}; a "
            f"mirror may have {mirrored or f'MIRROR/{name}'}/"
        ) from error
