"""A checkout is used with its own code; messages name no package that anyone could register."""

import re
import shutil
from pathlib import Path

import pytest

import rspo
from rspo.cli import main
from rspo.core import checkout
from rspo.core.checkout import checkout_above, install_hint, is_checkout, require_same_checkout
from rspo.core.errors import InputError
from tests.support import ROOT, copy_config


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Another checkout, with the files that identify it and its config."""
    folder = tmp_path / "clone"
    (folder / "rspo").mkdir(parents=True)
    for name in ("rspo/__init__.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    copy_config(folder)
    return folder


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder from which this process would import an installed wheel."""
    folder = tmp_path / "site-packages"
    monkeypatch.setattr(rspo, "__file__", str(folder / "rspo" / "__init__.py"))
    return folder


def test_only_a_folder_with_the_source_of_this_package_is_a_checkout(
    clone: Path, tmp_path: Path
) -> None:
    assert is_checkout(ROOT)
    assert is_checkout(clone)
    assert not is_checkout(tmp_path)
    assert checkout_above(clone / "workflow" / "rules" / "run.smk") == clone.resolve()
    assert checkout_above(tmp_path / "workflow" / "Snakefile") is None
    (clone / "pyproject.toml").write_text('[project]\nname = "mine"\n')
    assert not is_checkout(clone)


def test_the_environment_of_another_checkout_is_refused_with_both_paths(clone: Path) -> None:
    with pytest.raises(InputError) as error:
        require_same_checkout(clone)
    assert f"is that of {ROOT}," in str(error.value)
    assert f"those of {clone.resolve()}:" in str(error.value)


def test_commands_that_read_the_config_of_another_checkout_are_refused(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(clone)
    assert main(["status"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(ROOT) in error
    assert str(clone.resolve()) in error
    Path("pyproject.toml").unlink()  # a copy of config/ alone is nobody's checkout
    assert main(["status"]) == 0


@pytest.mark.usefixtures("wheel")
def test_a_wheel_without_a_checkout_may_be_used_in_any_folder(clone: Path) -> None:
    require_same_checkout(clone)


def test_the_same_checkout_by_another_path_is_not_refused(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(ROOT)
    require_same_checkout(link)
    require_same_checkout(tmp_path)


def test_what_is_to_be_installed_is_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    assert install_hint("math") == f"pip install '{ROOT}[math]'"
    monkeypatch.setattr(checkout, "package_folder", lambda: Path("/site-packages"))
    assert install_hint("math") == "pip install '<checkout>[math]'"


def test_no_message_names_this_package_as_one_of_an_index() -> None:
    """Whoever registers the name there would get our users."""
    for file in (ROOT / "rspo").rglob("*.py"):
        assert not re.search(r"install '?rspo\b", file.read_text()), file
