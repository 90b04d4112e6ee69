"""The folder `reports/`: copies of the figures, tables and report of one scale."""

import json
from pathlib import Path

from rspo.core.provenance import SUFFIX


def remove_other_scales(reports: Path, scale: str) -> list[Path]:
    """Remove what another scale published; its originals stay in its results folder.

    Files without provenance stay.

    Returns: the removed files.
    """
    removed = []
    for provenance in sorted(reports.rglob(f"*{SUFFIX}")):
        if _scale_of(provenance) != scale:
            file = provenance.with_name(provenance.name.removesuffix(SUFFIX))
            file.unlink(missing_ok=True)
            provenance.unlink()
            removed.append(file)
    return removed


def _scale_of(provenance: Path) -> str:
    """The option --scale of the command that made a file."""
    command = json.loads(provenance.read_text())["command"]
    return command[command.index("--scale") + 1] if "--scale" in command else "tiny"
