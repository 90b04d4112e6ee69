"""The environment variables of vLLM and of the caches of compiled kernels."""

import os
from pathlib import Path

import pytest

from rspo.core import environment
from rspo.core.errors import InputError


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A node with a folder for temporary files, whose user sets none of the variables."""
    set_here = environment.VLLM | environment.local_caches()
    kept = {name: value for name, value in os.environ.items() if name not in set_here}
    monkeypatch.setattr(os, "environ", kept)
    (tmp_path / "local").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "local"))


def test_caches_are_in_the_folder_for_temporary_files_or_where_the_user_says(
    tmp_path: Path,
) -> None:
    caches = environment.local_caches()
    assert {"TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT"} < set(caches)
    assert all(Path(folder).is_relative_to(tmp_path / "local") for folder in caches.values())
    assert len(set(caches.values())) == len(caches)
    os.environ["TRITON_CACHE_DIR"] = str(tmp_path / "elsewhere")
    environment.set_environment()
    assert os.environ["TRITON_CACHE_DIR"] == str(tmp_path / "elsewhere")


def test_only_this_user_can_write_into_the_folder_of_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.local_caches()
    (folder,) = (tmp_path / "local").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    environment.local_caches()  # again
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    another = tmp_path / "local" / "rspo-4711-caches"
    another.symlink_to(folder)
    with pytest.raises(InputError, match=f"^{another} is another user's; set TMPDIR .*own$"):
        environment.set_environment()
