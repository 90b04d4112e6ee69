"""The paper's claims C1 to C11, checked on our own data: verdicts are computed, never typed.

catalogue    each claim: its hypothesis and its planned comparisons, from the config's grid
comparisons  what is compared, and measuring it from scores and training logs
verdicts     from comparisons to a verdict; the only place with its words
write        `rspo claims`: claims.csv, claim_comparisons.csv and claims.md

docs/statistics.md says which error means what. Importing `catalogue` imports no numpy: the
Snakefile reads it to plan.
"""
