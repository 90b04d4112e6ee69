"""Files of a model on the Hugging Face hub, or in a mirror folder that has the hub's names."""

import shutil
from pathlib import Path

from rspo.core.errors import InputError

# Config, tokenizer, and the weights in one format.
_FILES = ("*.json", "*.safetensors", "*.txt", "*.jinja")


def fetch_files(name: str, revision: str | None, folder: Path, mirror: Path | None = None) -> str:
    """Copy a model's files from a mirror, or from the hub if the mirror lacks them.

    Args:
        name: of the model on the hub, such as `Qwen/Qwen2.5-Math-1.5B`.
        revision: a commit of the hub's repository; None for the newest.

    Returns: where the files come from, with the revision.

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
    for pattern in ("config.json", "tokenizer.json", "*.safetensors"):
        if not list(folder.glob(pattern)):
            raise InputError(f"{source}: has no {pattern}; expected the files of {name}")
    return f"{origin} @ {revision or 'main'}"


def _download(name: str, revision: str | None, mirrored: Path | None) -> Path:
    """Download a model's files; returns their folder. The mirrored folder is for the message."""
    from huggingface_hub import snapshot_download

    try:  # its cache resumes an interrupted download
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(_FILES)))
    except Exception as error:  # the library raises errors of several packages
        raise InputError(
            f"{name} could not be downloaded from the hub: {' '.join(str(error).split())}; a "
            f"mirror may have {mirrored or f'MIRROR/{name}'}/"
        ) from error
