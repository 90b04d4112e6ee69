"""The package without extras: with numpy only, on Python 3.10 to 3.13."""

import ast
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from tests.support import ROOT
from tests.support.installs import PIP, make_environment, make_wheel, run, start

# The oldest numpy that is allowed and has a wheel, for the first and last of requires-python.
OLDEST_NUMPY = {"3.10": "1.23.2", "3.13": "2.1.0"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def light(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with this package and the numpy of the tests."""
    python = make_environment(tmp_path_factory.mktemp("light") / "venv")
    run(*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=wheel.parent)
    packages = Path(
        run(python, "-c", "import site; print(*site.getsitepackages())", cwd=wheel.parent).strip()
    )
    for path in {Path(str(file)).parts[0] for file in distribution("numpy").files or []} - {".."}:
        (packages / path).symlink_to(Path(np.__file__).parents[1] / path)
    return python


def documented_example() -> tuple[str, list[str]]:
    """The code of the section "In Python" of docs/objectives.md, and what its lines print."""
    page = (ROOT / "docs" / "objectives.md").read_text()
    section = page.split("\n## In Python\n")[1].split("\n## ")[0]
    code = dedent("\n".join(re.findall(r"^    .*|^$", section, flags=re.MULTILINE))).strip()
    return code, re.findall(r"^print.*\S +# (.*?)(?:: .*)?$", code, flags=re.MULTILINE)


def check_documented_example(python: Path) -> list[str]:
    """Run the example and check what it prints and imports; return the files it loads."""
    code, expected = documented_example()
    assert len(expected) == 4
    lines = [
        "import json, sys, numpy",
        "before = set(sys.modules)",
        code,
        "new = set(sys.modules) - before",
        "tops = {name.split('.')[0] for name in new} - set(sys.stdlib_module_names)",
        "assert tops == {'numpy', 'rspo'}, tops",
        "from rspo.objectives import policy_loss",
        "try: policy_loss(None, None, None, max_tokens=1)",
        "except ModuleNotFoundError as error: assert error.name == 'torch'",
        "else: raise AssertionError('torch is installed')",
        "files = [sys.modules[name].__file__ for name in new if name.startswith('rspo')]",
        "print(json.dumps(files))",
    ]
    *printed, files = run(python, "-c", "\n".join(lines), cwd=python.parent).splitlines()
    assert printed == expected
    return list(json.loads(files))


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    """No compiled code; no plugin, because Snakemake imports all plugins for every workflow."""
    assert wheel.name.endswith("-py3-none-any.whl")  # for every system and processor
    files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "rspo").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == files


def test_the_package_requires_only_numpy(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    required = re.findall(r"^Requires-Dist: (.*)", metadata, flags=re.MULTILINE)
    assert [line for line in required if "extra ==" not in line] == [
        f"numpy>={OLDEST_NUMPY['3.10']}"
    ]
    assert "\nRequires-Python: <3.14,>=3.10\n" in metadata


@pytest.mark.promise("pip install .")
def test_the_documented_example_needs_only_numpy_and_the_syntax_of_python_3_10(
    light: Path,
) -> None:
    files = check_documented_example(light)
    names = {Path(file).stem for file in files}
    assert {"estimators", "errors", "registry", "loss", "passk"} < names
    assert len(files) < 24
    for file in files:
        ast.parse(Path(file).read_text(), feature_version=(3, 10))


def test_a_type_checker_reads_the_types_of_the_installed_package(
    light: Path, tmp_path: Path
) -> None:
    (tmp_path / "user.py").write_text(
        "from rspo.objectives import response_weights\n"
        "reveal_type(response_weights([[1, 0]], 'maxrl'))\n"
        "response_weights([[1, 0]], k='4')\n"
    )
    command = [sys.executable, "-m", "mypy", "--python-executable", str(light), "user.py"]
    found = start(*command, cwd=tmp_path).stdout
    assert 'Revealed type is "numpy.ndarray' in found
    assert "user.py:3: error" in found
    assert "py.typed" not in found


@pytest.mark.parametrize("words", [["bin/rspo"], ["bin/python", "-m", "rspo"]])
def test_the_command_says_in_one_line_what_to_install(light: Path, words: list[str]) -> None:
    folder = light.parents[1]
    for arguments in ([], ["--help"], ["train", "small--grpo--k1--n16--s0"]):
        done = start(folder / words[0], *words[1:], *arguments, cwd=folder)
        assert done.returncode == 2
        assert done.stdout == ""
        assert re.fullmatch(r"rspo: .*`pip install '<checkout>\[paper\]'`\n", done.stderr)


def test_the_command_shows_the_version(light: Path) -> None:
    folder = light.parents[1]
    version = run(light, "-c", "import rspo; print(rspo.__version__)", cwd=folder)
    assert run(folder / "bin/rspo", "--version", cwd=folder) == f"rspo {version}"


def test_a_verifier_without_its_libraries_says_what_to_install(light: Path) -> None:
    code = "from rspo.rewards import is_correct; print(is_correct([r'\\boxed{}'], ['4'], '{}'))"
    assert run(light, "-c", code.format("{4}", "exact"), cwd=light.parent) == "[True]\n"
    error = start(light, "-c", code.format("{8/2}", "rules"), cwd=light.parent).stderr
    assert error.endswith("verifier 'rules' needs math-verify: pip install '<checkout>[math]'\n")


def interpreter(version: str) -> Path:
    """Python of this version on PATH or among those of pyenv, where it need not be selected."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for folder in [*os.environ["PATH"].split(os.pathsep), *pyenv.glob("versions/*/bin")]:
        path = Path(folder, f"python{version}")
        if path.is_file() and not subprocess.run([path, "-c", ""], capture_output=True).returncode:
            return path
    pytest.skip(f"Python {version} is not installed: not tested with it")


@pytest.mark.ci
@pytest.mark.parametrize("version", OLDEST_NUMPY)
@pytest.mark.promise("pip install '.[math]'")
def test_the_package_works_on_the_first_and_last_python_with_the_oldest_numpy(
    version: str, wheel: Path, tmp_path: Path
) -> None:
    """Needs a package index."""
    python = make_environment(tmp_path / "venv", interpreter(version))
    numpy = f"numpy=={OLDEST_NUMPY[version]}"
    pip = [*PIP, "--python", python]
    run(*pip, "install", wheel, numpy, cwd=tmp_path)
    installed = run(*pip, "list", "--format=freeze", cwd=tmp_path).split()
    assert [line for line in installed if not line.startswith("rspo==")] == [numpy]
    check_documented_example(python)
    run(*pip, "install", f"{wheel}[math]", numpy, cwd=tmp_path)
    code = (
        "from rspo.adapters.trl_reward import accuracy_reward;"
        "from rspo.adapters.verl_reward import compute_score;"
        r"print(accuracy_reward([r'\boxed{0.5}', r'\boxed{\int_0^1 2xdx}'], [r'\frac{1}{2}', 2]),"
        r"compute_score('', r'\boxed{1/2}', '0.5')['reason'])"
    )
    assert run(python, "-c", code, cwd=tmp_path) == "[1.0, 0.0] correct\n"
