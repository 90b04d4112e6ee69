"""Rows of the user's own: those that `rspo verify` and `rspo compare` document."""

from rspo.formats.layout import Layout

LAYOUT = Layout(
    name="plain",
    title="rows of your own, with the keys that the options name",
    keys=(("problem", "answer", "response"), ("problem", "correct"), ("problem_id", "correct")),
    problem=("problem", "problem_id"),
    id=(
        "id",
        "problem_id",
        "question_id",
        "example_id",
        "task_id",
        "doc_id",
        "custom_id",
        "idx",
        "index",
    ),
    answer=("answer",),
    response=("response",),
    correct=("correct",),
    reward=("reward",),
)
