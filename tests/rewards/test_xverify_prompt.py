"""The judge's prompt is downloaded at a pinned commit and parsed, never executed."""

from pathlib import Path

import pytest

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.pipeline import tasks
from rspo.pipeline.state import state_of
from rspo.rewards.xverify.download import fetch_judge, template_in
from tests.support import paper_scale
from tests.support.judge_prompt import FILE, commit

TEMPLATE = "Is {output} the answer {answer} of {question}?"


def test_the_prompt_is_that_of_the_pinned_commit(tmp_path: Path) -> None:
    repository = tmp_path / "upstream"
    pinned = commit(repository, f"PROMPT = '''{TEMPLATE}'''\n")
    commit(repository, "PROMPT = 'newer'\n")

    def with_prompt(commit: str, url: str | None) -> Experiment:
        upstream = {"repository": str(repository), "commit": commit}
        return paper_scale.load(tmp_path, xverify={"prompt": upstream, "url": url})

    def fetch(commit: str) -> Path:
        experiment = with_prompt(commit, "http://judge:8000")  # which has the model
        fetch_judge(experiment)
        return experiment.files.judge_prompt

    with pytest.raises(InputError, match=rf"upstream/{FILE} @ 0{{40}}: git could not fetch it"):
        fetch("0" * 40)
    path = fetch(pinned)
    assert template_in(path.read_text(), "there") == TEMPLATE
    assert state_of(tasks.fetch_judge(with_prompt(pinned, None)), path, deep=True).is_current
    assert f"{FILE} @ {pinned}" in path.with_name("prompt.py.provenance.json").read_text()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("PROMPT = 'no fields'", "PROMPT is no text with the fields answer, output, question"),
        ("PROMPT = '{question} {output} {answer} {more}'", "PROMPT is no text"),
        ("PROMPT = '{question.__class__} {output} {answer}'", "PROMPT is no text"),
        ("OTHER = '{question} {output} {answer}'", "PROMPT is no text"),
        ("PROMPT = f'{1}'", "PROMPT is no text"),
        ("PROMPT =", "not Python"),
    ],
)
def test_an_unexpected_file_is_refused(source: str, message: str) -> None:
    with pytest.raises(InputError, match=f"there: {message}"):
        template_in(source, "there")


def test_the_file_is_not_executed(tmp_path: Path) -> None:
    trap = tmp_path / "run"
    source = f"open({str(trap)!r}, 'w')\nPROMPT = '''{TEMPLATE}'''\n"
    assert template_in(source, "there") == TEMPLATE
    assert not trap.exists()
