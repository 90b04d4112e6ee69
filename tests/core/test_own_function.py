"""A function of the user's own, which a command line names as FILE.py:FUNCTION."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from rspo.core.errors import InputError
from rspo.core.own_function import file_of, function_of
from rspo.objectives import policy_loss

FILE = """
from beside import FACTOR

LIMIT = 3

def scaled(rewards, k):
    return FACTOR * k * rewards

def negative(rewards, k):
    return -rewards

def _helper(rewards, k):
    return rewards
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delitem(sys.modules, "beside", raising=False)  # of another test
    (tmp_path / "beside.py").write_text("FACTOR = 2\n")
    file = tmp_path / "own.py"
    file.write_text(FILE)
    return file


def test_a_function_may_use_modules_beside_its_file(file: Path) -> None:
    path = list(sys.path)
    weights = function_of(f"{file}:scaled")
    assert np.asarray(weights(np.ones(2), 3)).tolist() == [6, 6]
    assert sys.path == path


@pytest.mark.parametrize("name", ["constant", "LIMIT", ""])
def test_a_name_that_is_no_function_is_refused_with_the_public_functions(
    file: Path, name: str
) -> None:
    with pytest.raises(InputError) as error:
        function_of(f"{file}:{name}")
    assert str(error.value) == f"{file} has no function {name!r}; has scaled, negative"


@pytest.mark.parametrize("place", ["no.py", "folder.py", "own.txt", ""])
def test_a_place_that_is_no_python_file_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(file.parent)
    Path("folder.py").mkdir()
    Path("own.txt").write_text(FILE)
    with pytest.raises(InputError) as error:
        function_of(f"{place}:scaled")
    assert str(error.value) == f"{place}:scaled: no file {place!r}; allowed: FILE.py:FUNCTION"


def test_a_file_that_fails_is_one_line_and_leaves_no_trace(file: Path) -> None:
    path = list(sys.path)
    file.write_text("raise RuntimeError('first\\n  second')")
    with pytest.raises(InputError) as error:
        function_of(f"{file}:scaled")
    assert str(error.value) == f"{file} failed: RuntimeError: first second"
    assert sys.path == path


def test_the_file_of_a_users_function_is_found_and_of_no_other(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = function_of(f"{file}:scaled")
    assert file_of(function) == file.resolve()
    assert file_of(partial(function, k=2)) == file.resolve()
    monkeypatch.chdir(file.parent)
    assert file_of(function) == Path("own.py")
    assert file_of(policy_loss) is None
    assert file_of(len) is None
