"""The verifiers compared: speed of `rules`, and the accuracy of each on labelled answers."""

from benchmarks import Row


def run() -> list[Row]:
    from benchmarks.verifier import speed, tables

    return [*speed.rows(), *tables.rows()]
