"""The environment variables of vLLM and of the caches of compiled kernels."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from rspo.config.experiment import Experiment
from rspo.core import environment
from rspo.core.errors import InputError
from rspo.slurm.doctor import report_environment
from tests.support import ROOT


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A node whose home folder is shared, and that has a folder for temporary files."""
    set_here = environment.VLLM | environment.local_caches()
    kept = {name: value for name, value in os.environ.items() if name not in set_here}
    monkeypatch.setattr(os, "environ", kept)
    (tmp_path / "local").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "local"))
    disks = [
        SimpleNamespace(mountpoint="/", fstype="overlay"),
        SimpleNamespace(mountpoint=str(tmp_path / "home"), fstype="nfs4"),
        SimpleNamespace(mountpoint=str(tmp_path / "home" / "scratch"), fstype="xfs"),
    ]
    monkeypatch.setattr("psutil.disk_partitions", lambda all: disks)


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


@pytest.mark.parametrize(
    ("folder", "kind"), [("home/me", "nfs4"), ("home/scratch/me", ""), ("local", "")]
)
def test_a_cache_on_a_shared_folder_is_found(tmp_path: Path, folder: str, kind: str) -> None:
    values = {"a": str(tmp_path / folder / "triton"), "b": "auto", "c": "1"}
    assert environment.on_shared_folders(values) == ({"a": kind} if kind else {})


@pytest.mark.ci
@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_doctor_lists_the_variables_of_every_process(
    scale: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = Experiment.load(scale, root=ROOT)
    assert report_environment(experiment)
    lines = dict(line.split(": ") for line in capsys.readouterr().out.splitlines())
    users = {"sampler", "judge"}
    if scale == "paper":
        users |= {"judge beside a policy", "driver", "ranks", "policy's servers"}
    for line in ("VLLM_USE_FLASHINFER_SAMPLER=0", "VLLM_USE_V2_MODEL_RUNNER=0"):
        assert set(lines[line].split(", ")) == users
    cache = f"TRITON_CACHE_DIR={environment.local_caches()['TRITON_CACHE_DIR']}"
    assert set(lines[cache].split(", ")) == users


def test_doctor_names_a_cache_that_nodes_share(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.environ["VLLM_CACHE_ROOT"] = str(tmp_path / "home" / "me")
    assert not report_environment(Experiment.load("tiny", root=ROOT))
    line = f"VLLM_CACHE_ROOT={tmp_path}/home/me (on nfs4, which nodes share): sampler, judge"
    assert line in capsys.readouterr().out.splitlines()
