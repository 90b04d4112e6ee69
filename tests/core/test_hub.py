"""A model's files come from the mirror that has them, or else from the hub."""

from pathlib import Path
from typing import Any

import pytest

from rspo.core.errors import InputError
from rspo.core.hub import fetch_files

MODEL = "Qwen/Qwen2.5-Math-1.5B"
FILES = (
    "config.json",
    "tokenizer.json",
    "model-1.safetensors",
    "model-2.safetensors",
    "merges.txt",
    "chat_template.jinja",
)


@pytest.fixture
def downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None]]:
    """The names and revisions that were downloaded from a hub, which has the model."""
    names: list[tuple[str, str | None]] = []

    def download(name: str, revision: str | None, allow_patterns: list[str]) -> str:
        names.append((name, revision))
        folder = model_in(tmp_path / "cache")
        for file in folder.iterdir():
            if not any(file.match(pattern) for pattern in allow_patterns):
                file.unlink()
        assert {file.name for file in folder.iterdir()} == set(FILES)  # no weights in other formats
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    return names


def model_in(root: Path) -> Path:
    """A folder with a model's files, and weights in another format."""
    folder = root / MODEL
    folder.mkdir(parents=True)
    for name in FILES:
        (folder / name).write_text(f"{name} of {root.name}")
    (folder / "pytorch_model.bin").write_text("the same weights again")
    return folder


def test_a_mirror_that_has_the_model_is_copied_without_a_download(
    tmp_path: Path, downloaded: list[Any]
) -> None:
    source = model_in(tmp_path / "mirror")
    folder = tmp_path / "new" / "model"
    origin = fetch_files(MODEL, "abc", folder, tmp_path / "mirror")
    assert origin == f"{source} @ abc"
    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        name: f"{name} of mirror" for name in FILES
    }
    assert fetch_files(MODEL, None, folder, tmp_path / "mirror") == f"{source} @ main"
    assert downloaded == []


@pytest.mark.parametrize("has_mirror", [False, True])
def test_what_no_mirror_has_is_downloaded_in_the_revision(
    tmp_path: Path, downloaded: list[Any], has_mirror: bool
) -> None:
    (tmp_path / "mirror").mkdir()
    folder = tmp_path / "model"
    mirror = tmp_path / "mirror" if has_mirror else None
    assert fetch_files(MODEL, "abc", folder, mirror) == f"https://huggingface.co/{MODEL} @ abc"
    assert downloaded == [(MODEL, "abc")]
    assert {file.name for file in folder.iterdir()} == set(FILES)


def test_a_mirror_that_does_not_exist_is_refused(tmp_path: Path, downloaded: list[Any]) -> None:
    with pytest.raises(InputError, match=r"^mirror = .*/mirror: no such folder$"):
        fetch_files(MODEL, None, tmp_path / "model", tmp_path / "mirror")
    assert downloaded == []


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_model_without_a_needed_file_is_refused(tmp_path: Path, name: str) -> None:
    source = model_in(tmp_path / "mirror")
    (source / name).unlink()
    with pytest.raises(InputError) as error:
        fetch_files(MODEL, None, tmp_path / "model", tmp_path / "mirror")
    assert str(error.value) == f"{source}: has no {name}; expected the files of {MODEL}"


def test_a_model_without_weights_is_refused(tmp_path: Path) -> None:
    source = model_in(tmp_path / "mirror")
    for file in source.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(InputError, match=r"has no \*\.safetensors; expected the files of Qwen/"):
        fetch_files(MODEL, None, tmp_path / "model", tmp_path / "mirror")


def test_a_download_that_fails_is_one_line_with_the_place_for_a_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no network:\n  try again")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    begin = f"{MODEL} could not be downloaded from the hub: no network: try again; a mirror may"
    for mirror, place in ((None, "MIRROR"), (tmp_path, tmp_path)):
        with pytest.raises(InputError) as error:
            fetch_files(MODEL, None, tmp_path / "model", mirror)
        assert str(error.value) == f"{begin} have {place}/{MODEL}/"
