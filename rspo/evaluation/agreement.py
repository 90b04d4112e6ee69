"""`rspo agreement`: how often two verifiers agree, and the responses on which they differ."""

from typing import Any

import pandas as pd

from rspo.config import steps
from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.core.tables import write_csv
from rspo.evaluation.read_outcomes import scored_samples
from rspo.rewards.configured import verifier_of

_DISAGREEMENT_COLUMNS = [
    *("policy", "benchmark", "problem_id", "sample_index", "verdict_a", "verdict_b"),
    *("problem", "answers", "response"),
]


def write_agreement(experiment: Experiment, force: bool = False) -> None:
    """Write tables/agreement.csv and tables/disagreements.csv.

    `agreement.against` verifies the first `agreement.samples` samples of every problem; its
    verdicts are compared with those of the scores tables.

    Raises: InputError if both verifiers are the same, or tables are missing.
    """
    verifier, against = experiment.config.verifier, experiment.config.agreement.against
    if against == verifier:
        raise InputError(
            f"config/{experiment.scale}.yaml: agreement.against = {against!r} is the verifier of "
            "the scores; name another one"
        )
    step, samples = steps.agreement(experiment), experiment.config.agreement.samples
    table, disagreements = step.outputs

    def work() -> None:
        counts, differing = [], []
        with verifier_of(experiment, against, table.with_suffix(".verdicts.jsonl")) as verify:
            for policy, suite in experiment.evaluations:
                if not experiment.is_base(policy):
                    continue
                for benchmark in experiment.benchmarks_of(suite):
                    frame = scored_samples(experiment, policy, benchmark, samples)
                    questions = [messages[-1]["content"] for messages in frame["prompt"]]
                    answers = [list(forms) for forms in frame["answers"]]
                    verdicts = verify(list(frame["text"]), answers, questions=questions)
                    names = {"policy": policy, "benchmark": benchmark}
                    names |= {"verifier_a": verifier, "verifier_b": against}
                    frame = frame.rename(columns={"verdict": "verdict_a", "text": "response"})
                    frame = frame.assign(
                        **names,
                        correct_b=[verdict.correct for verdict in verdicts],
                        verdict_b=[verdict.reason for verdict in verdicts],
                        problem=questions,
                        answers=[" | ".join(forms) for forms in answers],
                    )
                    counts.append(names | agreement_of(frame["correct"], frame["correct_b"]))
                    differing.append(frame[frame["correct"] != frame["correct_b"]])
        write_csv(table, pd.DataFrame(counts))
        write_csv(disagreements, pd.concat(differing)[_DISAGREEMENT_COLUMNS])

    step.run(work, force)


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
