"""The paper's claims C1 to C11, tested on the data of an experiment; every verdict is computed.

catalogue    each claim: its hypothesis and its planned comparisons, from the config's grid
comparisons  descriptions of what is compared
measure      a comparison's value and errors, from scores and training logs
verdicts     from measured comparisons to a verdict
write        `rspo claims`: claims.csv, claim_comparisons.csv and claims.md

docs/statistics.md explains the errors. `catalogue` does not import numpy, because the Snakefile
imports it.
"""
