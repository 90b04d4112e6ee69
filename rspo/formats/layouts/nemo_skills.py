"""Outputs of NeMo-Skills: a file for each seed."""

from rspo.formats.layout import Layout

LAYOUT = Layout(
    name="nemo-skills",
    title="NeMo-Skills, `output-rs*.jsonl`",
    keys=(("problem", "expected_answer", "generation"),),
    problem=("problem",),
    id=("id",),
    answer=("expected_answer",),
    response=("generation",),
    correct=("symbolic_correct", "is_correct"),
)
