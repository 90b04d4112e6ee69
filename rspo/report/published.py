"""The folder `reports/`: copies of the current figures, tables and report of one scale."""

import json
from collections.abc import Collection
from pathlib import Path

from rspo.core.provenance import SUFFIX

_FOLDERS = ("figures", "tables", ".")  # of the originals, in the results of a scale


def remove_outdated_copies(reports: Path, results: Path, figures: Collection[str]) -> list[Path]:
    """Remove copies of what another scale made, and of figures that the config no longer has.

    Other files stay, such as a user's own.

    Args:
        results: folder of the scale whose files stay; the other scales' folders are beside it.
        figures: names of the config's figures.

    Returns: the removed files.
    """
    others = [folder for folder in results.parent.glob("*/") if folder != results]
    removed = []
    for provenance in sorted(reports.rglob(f"*{SUFFIX}")):
        file = provenance.with_name(provenance.name.removesuffix(SUFFIX))
        is_former = file.stem.startswith("fig_") and file.stem not in figures
        is_ours = _has_copy(results, provenance)
        is_of_others = any(_has_copy(folder, provenance) for folder in others)
        if is_former if is_ours else is_of_others:
            file.unlink(missing_ok=True)
            provenance.unlink()
            removed.append(file)
    return removed


def _has_copy(results: Path, provenance: Path) -> bool:
    """Whether a scale's results have the file of the same name with the same content."""
    originals = (results / folder / provenance.name for folder in _FOLDERS)
    digest = _digest(provenance)
    return digest is not None and any(_digest(original) == digest for original in originals)


def _digest(provenance: Path) -> str | None:
    """Digest in a provenance file; None if the file is missing or damaged."""
    try:
        digest: str = json.loads(provenance.read_text())["digest"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return digest
