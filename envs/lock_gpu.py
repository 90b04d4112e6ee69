"""Resolve envs/gpu.lock from pyproject.toml, with uv's resolver, for Linux x86-64 and Python 3.12.

    python envs/lock_gpu.py PYTHON3.12

Run by `make lock` after envs/lock.py: where the requirements allow it, gpu.lock has the versions of
the CPU locks. Only metadata is downloaded and nothing is installed. Everything is resolved: PyTorch
with its NVIDIA packages, vLLM, verl, Snakemake. Also writes envs/differences.md and the digests of
the locks in the files for conda.
"""

import re
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from lock import (
    OVERRIDES,
    ROOT,
    extra_lines,
    make_venv,
    minor_of,
    name_of,
    project,
    stand_in,
    write,
)

EXTRAS = ("verl", "gpu")
PLATFORM = "x86_64-manylinux_2_31"  # glibc 2.31: the oldest for which all have a wheel, but for
SOURCE_ONLY = ("antlr4-python3-runtime", "connection-pool")  # plain Python
CPU_LOCKS = ("cpu.lock", "cpu-verl.lock")
# The one requirement left out, see envs/README.md.
REPLACED = "mistral-common"


def read_lock(name: str) -> dict[str, str]:
    """name -> version of a lock file."""
    lines = (ROOT / "envs" / name).read_text(encoding="utf-8").splitlines()
    pins = [line.partition(";")[0] for line in lines if "==" in line and line[0] != "#"]
    return dict(pin.split("==") for pin in pins)


def cpu_versions() -> dict[str, str]:
    return {name: pin for lock in CPU_LOCKS for name, pin in read_lock(lock).items()}


def resolve(python: Path, folder: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """name -> version, and name -> the packages that ask for it."""
    requirement = f"{REPLACED}[image]=={cpu_versions()[REPLACED]}"  # with the extra that vLLM wants
    replaced, _ = stand_in(python, requirement, OVERRIDES[REPLACED], folder)
    wanted, found = folder / "wanted.txt", folder / "found.txt"
    wanted.write_text("\n".join([*project()["dependencies"], *extra_lines(EXTRAS), replaced]))
    # What is in the output file already, uv keeps where it can.
    found.write_text("\n".join(f"{name}=={pin}" for name, pin in cpu_versions().items()))
    subprocess.run([str(python), "-m", "pip", "install", "-qq", "uv"], check=True)
    command = [str(python), "-m", "uv", "pip", "compile", "-q", str(wanted), "-o", str(found)]
    options = ["--python", str(python), "--python-platform", PLATFORM, "--no-header"]
    options += ["--only-binary", ":all:"]
    options += [word for name in SOURCE_ONLY for word in ("--no-binary", name)]
    subprocess.run([*command, *options, "--annotation-style", "line"], check=True)
    versions, asked = {}, {}
    for line in found.read_text().splitlines():
        pin, _, via = line.partition(" # via ")
        name = name_of(pin)
        versions[name] = pin.partition("==")[2].strip() or cpu_versions()[REPLACED]
        asked[name] = [word for word in re.split(r",\s*", via) if not word.startswith("-r ")]
    return versions, asked


def differences(gpu: dict[str, str]) -> list[tuple[str, str, str]]:
    """(package, version in the CPU locks, version in gpu.lock) where they differ; "" is without."""
    cpu = cpu_versions()
    names = sorted(cpu.keys() | gpu.keys())
    rows = [(name, cpu.get(name, ""), gpu.get(name, "")) for name in names]
    return [row for row in rows if row[1] != row[2]]


def write_differences(gpu: dict[str, str], asked: dict[str, list[str]]) -> None:
    lines = [
        "# Every difference between the CPU locks and the GPU lock",
        "",
        "Made by `make lock`. CPU: `cpu.lock` and `cpu-verl.lock`; GPU: `gpu.lock`. All other",
        "packages have the same version in both. Last column: what asks for it on the GPU.",
        "",
        "| package | CPU | GPU | for |",
        "|---|---|---|---|",
    ]
    for name, cpu, here in differences(gpu):
        row = [name, cpu or "-", here or "-", ", ".join(asked.get(name, []))]
        lines.append(f"| {' | '.join(row)} |")
    (ROOT / "envs/differences.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_digests() -> None:
    """Into the files for conda: Snakemake makes such an environment anew when its file changes."""
    for kind, locks in {"cpu": CPU_LOCKS, "gpu": ("gpu.lock", "gpu-compiled.lock")}.items():
        path = ROOT / f"envs/conda-{kind}.yaml"
        text = path.read_text(encoding="utf-8")
        for lock in locks:
            digest = sha256((ROOT / "envs" / lock).read_bytes()).hexdigest()
            text = re.sub(rf"# {re.escape(lock)}: .*", f"# {lock}: {digest}", text)
        path.write_text(text, encoding="utf-8")


def main(command: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        python = make_venv(command, Path(temporary) / "venv")
        if minor_of(python) != "3.12":
            sys.exit(f"gpu.lock is for Python 3.12, and {command} is {minor_of(python)}")
        versions, asked = resolve(python, Path(temporary))
    lines = [f"{name}=={pin}" for name, pin in sorted(versions.items())]
    about = "Everything on a machine with NVIDIA GPUs: Linux x86-64, Python 3.12, CUDA 13."
    write(ROOT / "envs/gpu.lock", about, lines)
    write_differences(versions, asked)
    write_digests()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
