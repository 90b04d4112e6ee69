"""`make demo`, then `make test` in the same folder: no test uses what the first one left there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.checkout_guard import FOLDER, changed, sitecustomize

USES = {
    "reading": "open('results/tiny/a').read()",
    "writing": "open('trial/new', 'w')",
    "a path of another folder": "open('docs/../results/tiny/a')",
    "a list": "import os; os.listdir('reports')",
    "a walk": "import pathlib; list(pathlib.Path('results').rglob('*'))",
    "a new folder": "import os; os.mkdir('trial/new')",
    "the first result": "import os; os.makedirs('results/new/cells')",
    "a removal": "import os; os.remove('reports/a')",
    "a removed folder": "import shutil; shutil.rmtree('trial')",
    "a renamed file": "import os; os.rename('docs/results/a', 'reports/b')",
    "a link": "import os; os.symlink('docs', 'reports/docs')",
}
ALLOWED = {
    "published results": "open('docs/results/a').read()",
    "the tracked file": "open('reports/README.md').read()",
    "another folder with such a name": "import os; os.listdir('results-of-others')",
    "looking for packages, as Snakemake does": "import pkgutil; list(pkgutil.iter_modules(['.']))",
    "removing another folder": "import shutil; shutil.rmtree('docs')",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder in place of the checkout, with results."""
    support = tmp_path / "tests" / "support" / "checkout_guard"
    shutil.copytree(FOLDER, support)
    for path in ("results/tiny/a", "reports/a", "reports/README.md", "trial/a", "docs/results/a"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("made by a run")
    (tmp_path / "results-of-others").mkdir()
    return tmp_path


def contents(checkout: Path) -> dict[Path, bytes | None]:
    """Of every file and folder of a run."""
    paths = [
        path for name in ("results", "reports", "trial") for path in checkout.glob(f"{name}/**")
    ]
    paths += [path for folder in paths for path in folder.glob("*")]
    return {path: path.read_bytes() if path.is_file() else None for path in paths}


def run(checkout: Path, code: str) -> tuple[int, str]:
    """The exit status of a Python process, and what was noted."""
    notes = checkout / "notes"
    notes.touch()
    folder = checkout / "tests" / "support" / "checkout_guard"
    environment = os.environ | {"PYTHONPATH": str(folder), sitecustomize.NOTES: str(notes)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True)
    return done.returncode, notes.read_text()


@pytest.mark.parametrize("code", USES.values(), ids=USES)
def test_each_use_by_a_process_of_a_test_is_refused_and_noted(checkout: Path, code: str) -> None:
    before = contents(checkout)
    _, notes = run(checkout, code)
    assert str(checkout) in notes
    assert contents(checkout) == before


def test_a_script_starts(checkout: Path) -> None:
    """Python opens it before any of its code runs."""
    script = checkout / "script.py"
    script.write_text("print('started')")
    notes, folder = checkout / "notes", checkout / "tests" / "support" / "checkout_guard"
    environment = os.environ | {"PYTHONPATH": str(folder), sitecustomize.NOTES: str(notes)}
    output = subprocess.check_output([sys.executable, script], env=environment, text=True)
    assert output == "started\n"


@pytest.mark.parametrize("code", ALLOWED.values(), ids=ALLOWED)
def test_other_files_may_be_used(checkout: Path, code: str) -> None:
    assert run(checkout, code) == (0, "")


@pytest.mark.promise("make test")
@pytest.mark.parametrize("marker", ["", "@pytest.mark.acceptance"])
def test_a_test_that_uses_a_result_fails_even_if_its_code_ignores_the_refusal(
    tmp_path: Path, marker: str
) -> None:
    """The conftest.py of all tests, with the checkout itself. There is no such result."""
    (tmp_path / "test_it.py").write_text(
        "import contextlib, pytest\n"
        f"{marker}\n"
        "def test_it() -> None:\n"
        "    with contextlib.suppress(OSError):\n"
        f"        open({str(ROOT / 'reports' / 'no-such-file')!r})\n"
    )
    options = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "", *options, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    if marker:
        assert done.returncode == 0, done.stdout
    else:
        assert done.returncode == 1
        assert f"open {ROOT / 'reports' / 'no-such-file'}" in done.stdout


def test_files_that_any_process_added_removed_or_wrote_are_found() -> None:
    before = {"a": (1, 5), "b": (1, 5), "c": (1, 5)}
    assert changed(before, {"a": (1, 5), "b": (2, 5), "d": (3, 0)}) == ["b", "c", "d"]
    assert changed(before, dict(before)) == []
