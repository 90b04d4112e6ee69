"""One source in a process of its own: `python -m benchmarks.scoreboard.child`.

Reads a source with its calls as JSON from standard input, and prints a list with what each call
maximizes. The folder of the source is on PYTHONPATH, before all other packages.
"""

import importlib
import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.scoreboard import SLOPES, N, stubs
from rspo.objectives.diagnose import diagnose

Advantages = Callable[[Any, int], Any]  # rewards [..., n] and k -> advantages [..., n]
Found = dict[str, Any]


def found(advantages: Advantages, k: int) -> Found:
    """What advantages maximize on 0/1 rewards with groups of N.

    Returns: `target`, in words; `j`, the j of the Pass@j of which they are an unbiased gradient, or
        null; `mixture`, the coefficients of a sum of Pass@j, or null; and `slopes`, F'(p) at
        `SLOPES`. If the function refuses k, or an advantage depends on other groups, only
        `refused`, the reason.
    """

    def weights(rewards: Any, k: int) -> Any:
        """Advantages divided by n, because a trainer averages over the n responses."""
        return advantages(rewards, k) / rewards.shape[-1]

    try:
        form = diagnose(weights, k, N, SLOPES).weights
    except ValueError as error:
        return {"refused": str(error)}
    mixture = form.mixture
    if mixture is not None:
        mixture = {j: round(value, 4) for j, value in mixture.items()}
    return {
        "target": form.target,
        "j": form.unbiased_for,
        "mixture": mixture,
        "slopes": [float(f"{slope:.2g}") for slope in form.slope],
    }


def of_call(adapter: Any, call: dict[str, Any]) -> dict[str, Found]:
    """What a call maximizes, by its k; by `none` if it has no k."""
    function = adapter.advantages(call["function"], call["settings"])
    if call["k"] == "none":
        return {"none": found(function, 1)}
    return {str(k): found(function, k) for k in range(1, N + 1)}


def main() -> None:
    source = json.load(sys.stdin)
    # The system sends SIGXCPU at the first number of processor seconds, and SIGKILL at the second.
    resource.setrlimit(resource.RLIMIT_CPU, (source["limit"], source["limit"] + 5))
    stubs.install(source["stubs"])
    adapter = importlib.import_module(f"benchmarks.scoreboard.adapters.{source['adapter']}")
    results = []
    for call in source["calls"]:
        result: dict[str, Any] = {"by_k": of_call(adapter, call)}
        if "correction" in call:
            result["corrected"] = of_call(adapter, {**call, **call["correction"]})
        results.append(result)
    file = sys.modules[source["module"]].__file__
    if file is None or not Path(file).is_relative_to(source["folder"]):
        raise SystemExit(f"{source['module']} was imported from {file}, not {source['folder']}")
    print(json.dumps(results))  # the last line: trainers print, too


if __name__ == "__main__":
    main()
