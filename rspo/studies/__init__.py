"""Comparisons beyond the paper's, each made on request: `snakemake reports/fig_peers.pdf`.

A study trains the cells of its entry in the config's `studies`, and writes a table of what was
measured, tables/<study>.csv, and a page of statements that follow from the table alone,
tables/<study>.md. Its figure, fig_<study> in `rspo.figures`, draws the table.
"""

from rspo.core.errors import InputError, did_you_mean
from rspo.studies import open_choices, peers, wrong_verdicts
from rspo.studies.study import Study

__all__ = ["STUDIES", "Study", "named"]

STUDIES: dict[str, Study] = {
    study.name: study for study in (peers.STUDY, open_choices.STUDY, wrong_verdicts.STUDY)
}


def named(name: str) -> Study:
    """Raises: InputError for an unknown name."""
    if name not in STUDIES:
        hints = [did_you_mean(name, STUDIES), f"has {', '.join(STUDIES)}"]
        raise InputError("; ".join([f"no study {name!r}", *filter(None, hints)]))
    return STUDIES[name]
