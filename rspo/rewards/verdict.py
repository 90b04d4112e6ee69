"""The verdict on one response."""

from dataclasses import dataclass

CORRECT = "correct"
INCORRECT = "incorrect"
NO_ANSWER = "no answer"  # no \boxed{} in the response, or the last one is not closed
TOO_LONG = "too long"  # the content of the box is longer than any answer
TIMEOUT = "timeout"
WORKER_DIED = "worker died"  # over the memory limit, or a crash
INVALID_REPLY = "invalid reply"  # the judge model's reply is not a verdict
REFUSED = "refused"  # by the judge's server, for example because the prompt exceeds the context
NO_REPLY = "no reply"  # from the judge's server, which answers other prompts


@dataclass(frozen=True)
class Verdict:
    """Why a response counts as correct or not: one of the reasons above.

    verifier: name of the verifier that decided; set by `rspo.rewards.verify`.
    """

    reason: str
    verifier: str = ""

    @property
    def correct(self) -> bool:
        return self.reason == CORRECT
