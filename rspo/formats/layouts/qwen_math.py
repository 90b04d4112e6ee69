"""Results of the evaluation scripts of Qwen2.5-Math, which simpleRL and others use too."""

from rspo.formats.layout import Layout

LAYOUT = Layout(
    name="qwen-math",
    title="Qwen2.5-Math's and simpleRL's evaluation",
    keys=(("question", "gt", "code", "pred"),),
    problem=("question",),
    id=("idx",),
    answer=("gt",),
    response=("code",),
    correct=("score",),
)
