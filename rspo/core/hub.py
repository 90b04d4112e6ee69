"""Files of a model on the Hugging Face hub, or in a mirror folder that has the hub's names."""

import shutil
from pathlib import Path

from rspo.core.errors import InputError

# Weights in one format, the tokenizer, and what they need; no second copy of the weights.
_FILES = ("*.json", "*.safetensors", "*.txt", "*.jinja")


def fetch_files(name: str, revision: str | None, folder: Path, mirror: Path | None = None) -> str:
    """Write a model's files to `folder` as they were published.

    Args:
        name: its id on the hub.

    Returns, Raises: as `fetch_model`.
    """
    if mirror is not None and not mirror.is_dir():
        raise InputError(f"mirror = {mirror}: no such folder")
    mirrored = None if mirror is None else mirror / name
    if mirrored is not None and mirrored.is_dir():
        found, origin = mirrored, str(mirrored)
    else:
        found, origin = _download(name, revision, mirrored), f"https://huggingface.co/{name}"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted({path for pattern in _FILES for path in found.glob(pattern)}):
        shutil.copyfile(path, folder / path.name)
    for pattern in ("config.json", "tokenizer.json", "*.safetensors"):
        if not list(folder.glob(pattern)):
            raise InputError(f"{found}: has no {pattern}; expected the files of {name}")
    return f"{origin} @ {revision or 'main'}"


def _download(name: str, revision: str | None, mirrored: Path | None) -> Path:
    """The snapshot in the hub's cache on this machine, which a killed download goes on from.

    Raises: InputError if the hub cannot be reached or does not give the model.
    """
    from huggingface_hub import snapshot_download

    try:
        snapshot = snapshot_download(name, revision=revision, allow_patterns=list(_FILES))
    except Exception as error:  # the library lets errors of several packages through
        reason = " ".join(str(error).split())
        place = mirrored or f"MIRROR/{name}"
        raise InputError(
            f"{name} of the hub cannot be had: {reason}; a mirror may have its files: {place}/"
        ) from error
    return Path(snapshot)
