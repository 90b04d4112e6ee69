"""Hostile responses: refused within limits, never evaluated, without effect on other rows."""

import json
import subprocess
import sys
import time

import pytest

from rspo.rewards import extraction, verify
from rspo.rewards.rules import notation, prose
from rspo.rewards.sandbox_worker import MEMORY_LIMIT
from tests.support import ROOT
from tests.support.attacks import ATTACKS, CODE, ENDLESS, SIZE, boxed

CLOCK = 0.001  # seconds; less is noise


HONEST = boxed(r"\frac{14}{2}")
# A process of its own, because every child of a process counts in RUSAGE_CHILDREN.
PEAK_MEMORY = """
import json, resource, sys
from rspo.rewards import sandbox, verify
responses = json.load(sys.stdin)
verdicts = verify(responses, ["7"] * len(responses), time_limit=1.0)
reasons = [verdict.reason for verdict in verdicts]
sandbox.close()  # only processes that have ended are counted
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps([reasons, peak * (1024 if sys.platform == "linux" else 1)]))
"""


def test_an_endless_attack_affects_only_its_row_and_stays_within_the_memory_limit() -> None:
    responses = [text for attack in ENDLESS.values() for text in (attack, HONEST)]
    responses += SIZE.values()
    done = subprocess.run(
        [sys.executable, "-c", PEAK_MEMORY],
        input=json.dumps(responses),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=ROOT,
    )
    reasons, peak = json.loads(done.stdout)
    assert {*reasons[: 2 * len(ENDLESS) : 2]} <= {"timeout", "worker died"}
    assert {*reasons[1 : 2 * len(ENDLESS) : 2]} == {"correct"}
    assert 0 < peak <= MEMORY_LIMIT


def test_other_attacks_are_refused_and_end_no_worker() -> None:
    others = {name: attack for name, attack in ATTACKS.items() if name not in ENDLESS}
    responses = [text for attack in others.values() for text in (attack, HONEST)]
    reasons = [verdict.reason for verdict in verify(responses, ["7"] * len(responses))]
    assert {*reasons[1::2]} == {"correct"}
    attacks = dict(zip(others, reasons[::2], strict=True))
    assert {*attacks.values()} <= {"incorrect", "no answer", "too long"}, attacks


NOTHING_EVALUATED = r"""
import builtins, json, sys
from rspo.rewards.rules import equivalence
from sympy.parsing import sympy_parser
for honest in (r"\int_0^1 x dx", r"\sum_{k=1}^{7} k", r"\lim_{x \to 0} x"):
    equivalence.equivalent(["7"], [honest])  # imports evaluate text of their own
evaluated = []
for module, name in ((builtins, "eval"), (sympy_parser, "eval_expr")):
    setattr(module, name, lambda *arguments: evaluated.append(arguments[0]))
for answer, prediction in json.load(sys.stdin):
    equivalence.equivalent([answer], [prediction])
assert evaluated == [], evaluated
"""


def test_no_text_is_ever_evaluated_as_python() -> None:
    r"""Not even the digits of a number, which math-verify's own parser passes to `sympify`."""
    predictions = [extraction.last_box(attack) or "" for attack in CODE.values()]
    honest = [r"\int_0^1 x dx", r"\sum_{k=1}^{7} 1.0", "4.5e3", r"\frac{1}{2}", "f(7)", "1,234"]
    rows = [("7", prediction) for prediction in predictions + honest]
    rows += [(r"\sum_{k=1}^{n} k", prediction) for prediction in predictions + honest]
    subprocess.run(
        [sys.executable, "-c", NOTHING_EVALUATED],
        input=json.dumps(rows),
        text=True,
        check=True,
        cwd=ROOT,
    )


MOTIFS = [
    *("1", "1,", "1 ", "1.", "0,", "1,111", " 111", r"\,111", "1e", "1/", "-", "7 %", "."),
    *("$", "$$", "$1", "$a", r"\(", r"\[", r"\(a", r"\[a\]", r"\text{", r"\text{a", r"\text "),
    *("{", "}", "{,}", r",\!", "(", "[", r"\{", "|", r"\begin{", r"\begin{a}", "<sup>", "<sup>a"),
    *(" ", "\n", "\t", "\n ", ". ", ". A", "%", " %", "a %", "\\", r"\\", r"\n", r"\q", "~"),
    *("a", "ab ", "A", "(A", "answer ", "answer is ", "answer: ", "not ", "or ", "is ", "one of "),
    *("<|", "<|a", "^", "^{", "^{\\circ", "_", "'", "!", "!=", "<=", "=", "x=", "²", "é", "\x00"),
    *(r"\boxed{", r"\boxed{1},", r"\boxed ", r"\frac", r"\frac1", r"\sqrt", r"\pm", r"\for", "/1"),
]


@pytest.mark.parametrize("motif", MOTIFS)
def test_reading_takes_linear_time(motif: str) -> None:
    """20,000 characters take about ten times as long as 2,000."""

    def seconds(length: int) -> float:
        text = "so " + motif * (length // len(motif))
        started = time.process_time()
        extraction.final_answers(boxed(text))
        for answer in (text, text + "7", text + "\n7"):
            notation.spellings(prose.formula_in(notation.repaired(answer)))
            prose.choice_in(answer)
        return time.process_time() - started

    seconds(200)
    short = min(seconds(2_000) for _ in range(3))
    long = min(seconds(20_000) for _ in range(3))
    assert long < 40 * max(short, CLOCK)


def test_no_box_of_allowed_length_reaches_the_limit() -> None:
    """A box of 2,000 characters never times out at the default limit."""
    responses = [boxed((motif * 2000)[:2000] + "8") for motif in MOTIFS]
    reasons = [verdict.reason for verdict in verify(responses, ["7"] * len(responses))]
    assert {*reasons} <= {"incorrect", "no answer", "too long"}, reasons
