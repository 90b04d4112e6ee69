"""Rows of a problems table, made by hand."""

from typing import Any


def problem(benchmark: str, row: int, question: str, answer: str = "1") -> dict[str, Any]:
    """The row of one problem."""
    return {
        "id": f"{benchmark}/{row}",
        "benchmark": benchmark,
        "prompt": [{"role": "user", "content": question}],
        "answers": [answer],
        "source": "test",
        "revision": "1",
        "row": row,
    }
