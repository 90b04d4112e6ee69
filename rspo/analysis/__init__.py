"""Comparisons of methods: the paper's claims C1 to C11, and studies beyond the paper's.

A claim or a study plans comparisons from the config (`claims`, `studies`); `measure` estimates them
from scores and training logs; `results` adds p-values and verdicts. Every comparison is a row of
one kind of table, with ids, from which figures, pages and the report are made (docs/statistics.md).
"""

from rspo.analysis.claims import CLAIMS, Claim, GridMethods, NotTested, register

__all__ = ["CLAIMS", "Claim", "GridMethods", "NotTested", "register"]
