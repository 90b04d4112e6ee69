"""Hostile responses: refused within limits, never evaluated, without effect on other rows."""

import json
import re
import resource
import subprocess
import sys
import time

import pytest

from rspo.rewards import extraction, sandbox, verify
from rspo.rewards.rules import notation, prose
from rspo.rewards.sandbox import MEMORY_LIMIT
from tests.support import ROOT
from tests.support.attacks import ATTACKS, CODE, ENDLESS, SIZE, boxed

CLOCK = 0.001  # seconds; less is noise


def test_the_corpus_is_wide() -> None:
    assert len(ATTACKS) >= 60
    assert len(set(ATTACKS.values())) == len(ATTACKS)


def reasons_next_to_honest_responses(attacks: dict[str, str], time_limit: float) -> dict[str, str]:
    """The reason of each attack. The honest response after each one must be accepted."""
    honest = boxed(r"\frac{14}{2}")
    responses = [text for attack in attacks.values() for text in (attack, honest)]
    verdicts = verify(responses, ["7"] * len(responses), time_limit=time_limit)
    assert {verdict.reason for verdict in verdicts[1::2]} == {"correct"}
    return {name: verdict.reason for name, verdict in zip(attacks, verdicts[::2], strict=True)}


def test_an_endless_attack_affects_only_its_row() -> None:
    sandbox.close()
    reasons = reasons_next_to_honest_responses(ENDLESS, time_limit=5)
    assert {*reasons.values()} <= {"timeout", "worker died"}


def test_other_attacks_are_refused_and_end_no_worker() -> None:
    """Each takes a fraction of a second, but time limits are wall-clock times."""
    others = {name: attack for name, attack in ATTACKS.items() if name not in ENDLESS}
    reasons = reasons_next_to_honest_responses(others, time_limit=60)
    assert {*reasons.values()} <= {"incorrect", "no answer", "too long"}, reasons


def test_reasons_are_recorded() -> None:
    rows = {
        "megabyte of digits": "too long",
        "megabyte of braces": "too long",
        "megabyte of boxes": "no answer",
        "cut in the box": "no answer",
        "cut behind an earlier box": "no answer",
        "empty": "no answer",
        "empty box": "no answer",
        "no box": "no answer",
        "box in a comment": "no answer",
        "box in a comment behind another": "incorrect",
        "every number": "incorrect",
        "tower of powers": "incorrect",
    }
    verdicts = verify([ATTACKS[name] for name in rows], ["7"] * len(rows))
    assert [verdict.reason for verdict in verdicts] == list(rows.values())


@pytest.mark.skipif(sys.platform != "linux", reason="kilobytes on Linux, bytes elsewhere")
def test_no_worker_ever_held_more_than_its_limit() -> None:
    verify([ATTACKS[name] for name in (*ENDLESS, *SIZE)], ["7"] * len(ENDLESS | SIZE), time_limit=1)
    sandbox.close()  # only processes that have ended are counted
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 <= MEMORY_LIMIT


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
        timeout=120,
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


def test_every_module_with_patterns_is_timed() -> None:
    """The test above must call every module that has a regular expression."""
    folder = ROOT / "rspo" / "rewards"
    with_patterns = {
        path.stem for path in folder.glob("*.py") if re.search(r"\bre\.compile", path.read_text())
    }
    assert with_patterns <= {"extraction", "notation", "prose", "exact"}


def test_no_box_of_allowed_length_reaches_the_limit() -> None:
    """A box of 2,000 characters never times out at the default limit."""
    responses = [boxed((motif * 2000)[:2000] + "8") for motif in MOTIFS]
    reasons = [verdict.reason for verdict in verify(responses, ["7"] * len(responses))]
    assert {*reasons} <= {"incorrect", "no answer", "too long"}, reasons
