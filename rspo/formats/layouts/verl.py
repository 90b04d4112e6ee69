"""Files of verl: dumps of rollouts and validations, and the responses of main_generation."""

from rspo.formats.layout import Layout

DUMP = Layout(
    name="verl",
    title="verl, `rollout_data_dir` and `validation_data_dir`",
    keys=(("input", "output", "gts"), ("input", "output", "score", "step")),
    problem=("input",),
    answer=("gts",),
    response=("output",),
    correct=("acc", "score"),
    reward=("score",),
)
GENERATION = Layout(
    name="verl-generation",
    title="verl, `main_generation`",
    keys=(("prompt", "reward_model.ground_truth", "responses"),),
    problem=("prompt",),
    id=("extra_info.index",),
    answer=("reward_model.ground_truth",),
    response=("responses",),
)
