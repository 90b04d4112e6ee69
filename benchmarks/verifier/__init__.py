"""A comparison of the verifiers: speed, memory, and the accuracy of each on labelled answers."""

from benchmarks import Row


def run() -> list[Row]:
    from benchmarks.verifier import speed, tables

    return speed.rows() + speed.rows_of_one_worker() + tables.rows()
