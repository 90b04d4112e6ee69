"""Environments where this package is installed, and commands in them without this checkout."""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.support import ROOT

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def start(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without this checkout on its path."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)


def run(*words: str | Path, cwd: Path) -> str:
    """Standard output of a command that must succeed."""
    done = start(*words, cwd=cwd)
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


def make_environment(folder: Path, python: str | Path = sys.executable) -> Path:
    """An empty virtual environment; returns its Python."""
    run(python, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    return folder / "bin" / "python"


def make_wheel(folder: Path) -> Path:
    """The wheel that pip builds from the source distribution of a copy of the checkout."""
    project, unpacked = folder / "project", folder / "unpacked"
    project.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, project)
    for name in ("rspo", *(path.name for path in ROOT.glob("snakemake_*_plugin_*"))):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    sdist = _build("sdist", project)
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    return _build("wheel", unpacked / sdist.name.removesuffix(".tar.gz"))


def _build(kind: str, project: Path) -> Path:
    code = f"from setuptools import build_meta; build_meta.build_{kind}('dist')"
    run(sys.executable, "-c", code, cwd=project)
    (file,) = (project / "dist").iterdir()
    return file
