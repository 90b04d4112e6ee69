"""An evaluation with Inspect itself; test_inspect.py runs this where Inspect is.

`python inspect_evaluation.py TASK` evaluates tasks, also the page's, with a model whose responses
are known, and prints the results of the logs as JSON.
"""

import json
import sys

from inspect_ai import Epochs, Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from rspo.rewards.inspect_ai import max_at, verdict

RIGHT, WRONG = r"so it is \boxed{0.5}", r"\boxed{3}"
HANGS = r"\boxed{10^{10^{10}}}"


def output(response: str) -> ModelOutput:
    made = ModelOutput.from_content("mockllm/model", response)
    made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else it is estimated
    return made


def results(task: "Task | str", responses: list[str]) -> dict[str, object]:
    """By reducer, the metrics of a task; and the explanations of the scores."""
    model = get_model("mockllm/model", custom_outputs=[output(each) for each in responses])
    (log,) = eval(task, model=model, display="none", max_connections=1, max_samples=1)
    assert log.status == "success", log.error
    assert log.results is not None
    assert log.samples is not None
    metrics = {
        str(one.reducer): {name: metric.value for name, metric in one.metrics.items()}
        for one in log.results.scores
    }
    scores = [(sample.scores or {})["verdict"] for sample in log.samples]
    return {
        "metrics": metrics,
        "reasons": sorted(str(score.explanation) for score in scores),
        "answers": sorted({str(score.answer) for score in scores}),
    }


if __name__ == "__main__":
    half = Sample(id="half", input="1/4 + 1/4?", target=["0.5", r"\frac{1}{2}"])
    seven = Sample(id="seven", input="3 + 4?", target="7")
    mixed = Task([half, seven], scorer=verdict(), epochs=Epochs(4, ["rspo/max_at_1", max_at(2)]))
    # One of four responses to `half` is right, and two of four to `seven`.
    rows = [RIGHT, r"\boxed{7}", WRONG, "7", WRONG, r"\boxed{7.0}", WRONG, WRONG]
    hanging = Task([half], scorer=verdict(verifier="math_verify", time_limit=1.0))
    print(
        json.dumps(
            {
                "mixed": results(mixed, rows),
                "hanging": results(hanging, [HANGS]),
                "page": results(sys.argv[1], [RIGHT, r"\boxed{9}"] * 16),
            }
        )
    )
