"""The verdict on a response, and the reasons that it may have."""

from dataclasses import dataclass

CORRECT = "correct"
INCORRECT = "incorrect"
NO_ANSWER = "no answer"  # none at the places that are read, or in a box that is not closed
TOO_LONG = "too long"  # the content of the box is longer than any answer
TIMEOUT = "timeout"
WORKER_DIED = "worker died"  # over the memory limit, or a crash
INVALID_REPLY = "invalid reply"  # the judge model's reply is not a verdict
# The judge's server refused the prompt, for example because it exceeds the context.
REFUSED = "refused"
NO_REPLY = "no reply"  # the judge's server did not reply to this prompt, but answers other prompts


@dataclass(frozen=True)
class Verdict:
    """Whether a response counts as correct, and why.

    reason: one of the constants above. Only CORRECT counts as correct.
    verifier: name of the verifier that decided; set by `rspo.rewards.verify`.
    """

    reason: str
    verifier: str = ""

    @property
    def correct(self) -> bool:
        return self.reason == CORRECT
