"""The paper's claims C1 to C11, tested on the data of an experiment; every verdict is computed.

docs/statistics.md explains the errors, docs/add/claim.md how to add a claim. `catalogue` does not
import numpy, because the Snakefile imports it.
"""

from rspo.claims.catalogue import CLAIMS, Claim, GridMethods, NotTested, difference, register

__all__ = ["CLAIMS", "Claim", "GridMethods", "NotTested", "difference", "register"]
