"""What a verifier says about one response."""

from dataclasses import dataclass

CORRECT = "correct"
INCORRECT = "incorrect"
NO_ANSWER = "no answer"  # no \boxed{} in the response, or one that never closes
TOO_LONG = "too long"  # the box holds more than any answer could need
TIMEOUT = "timeout"
WORKER_DIED = "worker died"  # over the memory limit, or a crash
INVALID_REPLY = "invalid reply"  # the judge model said something else than a verdict
REFUSED = "refused"  # by the judge's server: a prompt beyond the model's context, say
NO_REPLY = "no reply"  # from a judge that answers other prompts


@dataclass(frozen=True)
class Verdict:
    """Why a response counts as correct or not: one of the reasons above.

    verifier: the one that decided, by its name in a config; `rspo.rewards.verify` writes it.
    """

    reason: str
    verifier: str = ""

    @property
    def correct(self) -> bool:
        return self.reason == CORRECT
