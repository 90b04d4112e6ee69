"""`rspo agreement`: how often another verifier agrees with the scores, and where it does not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.config.names import verifier_names
from rspo.core.errors import InputError, allowed_names
from rspo.core.tables import write_csv
from rspo.evaluation.read_outcomes import scored_samples
from rspo.rewards.configured import verifier_of

_COLUMNS = [
    *("benchmark", "problem_id", "sample_index", "verdict", "verdict_of_other"),
    *("problem", "answers", "text"),
]


def agreement(
    experiment: Experiment,
    policy: str,
    suite: str,
    verifier: str,
    samples: int = 4,
    out: Path | None = None,
) -> Iterator[str]:
    """Verify a policy's samples again, and compare the verdicts with its scores.

    Args:
        verifier: the other one, b; a is that of the scores.
        samples: the first so many of each problem.
        out: new CSV file for the responses on which the two differ.

    Returns: lines with `agreement_of` for each benchmark.

    Raises: InputError for an unknown policy, suite or verifier, that of the scores, for scores that
        are missing, damaged, or made with other settings than the config's, and for an output that
        exists.
    """
    benchmarks = experiment.benchmarks_of(suite)
    if out is not None and (out.suffix != ".csv" or out.exists()):
        raise InputError(f"--out {out}: expected a new file that ends with .csv")
    others = [name for name in verifier_names() if name != experiment.config.verifier]
    if verifier not in others:
        raise InputError(f"verifier {verifier!r}; {allowed_names(verifier, others)}")
    steps.curves(experiment, policy, suite).require_inputs()
    counts, differing = [], []
    verdicts_of_judge = experiment.verdicts(policy, f"{suite}.agreement")
    with verifier_of(experiment, verifier, verdicts_of_judge) as verify:
        for benchmark in benchmarks:
            frame = scored_samples(experiment, policy, benchmark)
            frame = frame[frame["sample_index"] < samples]
            questions = [messages[-1]["content"] for messages in frame["prompt"]]
            answers = [list(forms) for forms in frame["answers"]]
            verdicts = verify(list(frame["text"]), answers, questions=questions)
            frame = frame.assign(
                benchmark=benchmark,
                problem=questions,
                answers=[" | ".join(forms) for forms in answers],
                correct_of_other=[verdict.correct for verdict in verdicts],
                verdict_of_other=[verdict.reason for verdict in verdicts],
            )
            found = agreement_of(frame["correct"], frame["correct_of_other"])
            counts.append({"benchmark": benchmark} | found)
            differing.append(frame[frame["correct"] != frame["correct_of_other"]])
    yield f"a: {experiment.config.verifier}, b: {verifier}"
    yield pd.DataFrame(counts).to_string(index=False, float_format="%.3f")
    if out is not None:
        write_csv(out, pd.concat(differing)[_COLUMNS])
        yield f"wrote {out}"


def agreement_of(a: "pd.Series[bool]", b: "pd.Series[bool]") -> dict[str, Any]:
    """Counts, fraction of equal verdicts, and Cohen's kappa of two verifiers' verdicts.

    kappa = (agreement - chance) / (1 - chance), where chance is the agreement of two independent
    verifiers that accept as often as these do (Cohen 1960). NaN where chance is 1: both accept
    every response, or none.
    """
    agreement = float((a == b).mean())
    accepted_a, accepted_b = float(a.mean()), float(b.mean())
    chance = accepted_a * accepted_b + (1 - accepted_a) * (1 - accepted_b)
    return {
        "responses": len(a),
        "both_correct": int((a & b).sum()),
        "only_a_correct": int((a & ~b).sum()),
        "only_b_correct": int((~a & b).sum()),
        "both_wrong": int((~a & ~b).sum()),
        "agreement": agreement,
        "kappa": float("nan") if chance == 1 else (agreement - chance) / (1 - chance),
    }
