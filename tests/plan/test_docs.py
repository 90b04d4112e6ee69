"""The plans in docs/ are what the commands print."""

import re

import pytest

from rspo.cli import main
from tests.support import ROOT

PRINTED = [
    (words, output)
    for page in ("plan", "one_gpu")
    for words, output in re.findall(
        r"```console\n\$ rspo (plan .*?)\n(.*?)```",
        (ROOT / "docs" / f"{page}.md").read_text(),
        re.DOTALL,
    )
]


@pytest.mark.parametrize(("words", "output"), PRINTED)
@pytest.mark.promise("rspo plan --scale paper --budget 200")
def test_docs_have_what_the_command_prints(
    words: str, output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main([*words.split(), "--results", "none"]) == 0
    assert capsys.readouterr().out == output
