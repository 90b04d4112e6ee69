"""What a verifier says about one response."""

from dataclasses import dataclass

CORRECT = "correct"
INCORRECT = "incorrect"
NO_ANSWER = "no answer"  # no \boxed{} in the response, or one that never closes
TOO_LONG = "too long"  # the box holds more than any answer could need
TIMEOUT = "timeout"
WORKER_DIED = "worker died"  # over the memory limit, or a crash


@dataclass(frozen=True)
class Verdict:
    """Why a response counts as correct or not: one of the reasons above."""

    reason: str

    @property
    def correct(self) -> bool:
        return self.reason == CORRECT
