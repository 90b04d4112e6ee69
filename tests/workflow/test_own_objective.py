"""A user adds an objective to the registry, as in docs/objectives.md, and runs Snakemake again."""

import json
import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

from rspo.core.tables import GRADIENTS, read_table
from tests.support import ROOT
from tests.support.snakemake_project import PROGRAMS, SMALL_WORLD, jobs, make_project

GRADIENTS_OF = "results/tiny/cells/small--base/gradients.parquet"
SETTINGS = {"prompts": 2, "responses": 16, "n": 8, "k": [2], "groupings": 1}
LINE = '        Objective("grpo", grpo, KRule.NONE, least_n=2),\n'


def documented() -> tuple[str, str]:
    """The function and the line of the registry in docs/objectives.md."""
    section = (ROOT / "docs" / "objectives.md").read_text().partition("## Add an objective")[2]
    function, line = re.findall(r"\n\n((?: {8}.*\n)+)", section)
    return textwrap.dedent(function), line


def snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Snakemake with the package in `folder`."""
    config = ["--config", *SMALL_WORLD, f"gradients={json.dumps(SETTINGS)}"]
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    return subprocess.run(
        [PROGRAMS / "snakemake", GRADIENTS_OF, *arguments, *config],
        cwd=folder,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )


def test_gradients_are_planned_again_for_a_new_objective(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project")
    for package in ("rspo", "snakemake_logger_plugin_rspo"):
        shutil.copytree(ROOT / package, folder / package)
    done = snakemake(folder)
    assert done.returncode == 0, done.stderr
    assert "gradients" not in jobs(snakemake(folder, "-n"))
    objectives = folder / "rspo" / "objectives"
    function, line = documented()
    with (objectives / "risk_neutral.py").open("a") as module:
        module.write(f"\n\n{function}")
    registry = objectives / "registry.py"
    text = registry.read_text().replace("import grpo, ", "import grpo, top_two_mean, ")
    assert LINE in text
    registry.write_text(text.replace(LINE, LINE + line))
    plan = jobs(snakemake(folder, "-n"))
    assert plan == {"gradients": 1, "total": 1}
    done = snakemake(folder)
    assert done.returncode == 0, done.stderr
    rows = read_table(folder / GRADIENTS_OF, GRADIENTS)
    assert "top_two_mean" in {row["objective"] for row in rows}
