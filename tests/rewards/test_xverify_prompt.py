"""The judge's prompt is downloaded at a pinned commit and parsed, never executed."""

from pathlib import Path

import pytest

from rspo.config.schema import Upstream
from rspo.core.errors import InputError
from rspo.rewards.xverify.prompt import fetch_prompt, read_prompt, template_in
from tests.support.judge_prompt import FILE, commit

TEMPLATE = "Is {output} the answer {answer} of {question}?"


def test_the_prompt_is_that_of_the_pinned_commit(tmp_path: Path) -> None:
    repository, path = tmp_path / "upstream", tmp_path / "judge" / "prompt.py"
    pinned = commit(repository, f"PROMPT = '''{TEMPLATE}'''\n")
    commit(repository, "PROMPT = 'newer'\n")
    source = fetch_prompt(Upstream(repository=str(repository), commit=pinned), path)
    assert read_prompt(path, "paper") == TEMPLATE
    assert source.endswith(f"{FILE} @ {pinned}")


def test_the_error_names_a_commit_that_could_not_be_fetched(tmp_path: Path) -> None:
    commit(tmp_path / "upstream", f"PROMPT = '''{TEMPLATE}'''\n")
    missing = Upstream(repository=str(tmp_path / "upstream"), commit="0" * 40)
    with pytest.raises(
        InputError, match=rf"upstream at commit 0{{40}}: git could not fetch {FILE}"
    ):
        fetch_prompt(missing, tmp_path / "prompt.py")
    nowhere = Upstream(repository=str(tmp_path / "nowhere"), commit="0" * 40)
    with pytest.raises(InputError, match="nowhere at commit"):
        fetch_prompt(nowhere, tmp_path / "prompt.py")
    assert not (tmp_path / "prompt.py").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("PROMPT = 'no fields'", r"PROMPT has the fields \[\]; expected"),
        ("PROMPT = '{question} {output} {answer} {more}'", r"'more'"),
        ("PROMPT = '{question.__class__} {output} {answer}'", "has the fields"),
        ("OTHER = '{question} {output} {answer}'", "no text is assigned to PROMPT"),
        ("PROMPT = f'{1}'", "no text is assigned to PROMPT"),
        ("PROMPT =", "not Python"),
    ],
)
def test_an_unexpected_file_is_refused(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        template_in(source, "there")


def test_the_file_is_not_executed(tmp_path: Path) -> None:
    trap = tmp_path / "run"
    source = f"open({str(trap)!r}, 'w')\nPROMPT = '''{TEMPLATE}'''\n"
    assert template_in(source, "there") == TEMPLATE
    assert not trap.exists()


def test_a_missing_prompt_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`rspo fetch-prompt --scale paper` makes it"):
        read_prompt(tmp_path / "prompt.py", "paper")
