"""The paper's claims C1 to C11, tested on the data of an experiment; every verdict is computed.

docs/statistics.md explains the errors. `catalogue` does not import numpy, because the Snakefile
imports it.
"""
