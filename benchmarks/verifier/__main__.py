"""python -m benchmarks.verifier: measure the tables of docs/verification.md and write them."""

from benchmarks.verifier import tables

tables.write()
