"""Results of the long tests are of the code as it is now."""

from pathlib import Path

import pytest

from tests.long import STAGES, digest, rows


@pytest.mark.parametrize("name", STAGES)
def test_the_last_result_of_a_long_stage_is_of_this_code(name: str) -> None:
    advice = f'run `make test-long ARGS="{name}"` and commit tests/long_results.md'
    row = rows().get(name)
    assert row is not None, f"{name} has no result: {advice}"
    _, result, _, commit, code = row
    assert result.startswith("passed"), f"{name} failed at {commit}; after a repair, {advice}"
    assert code == digest(STAGES[name].covers), f"the code of {name} has changed: {advice}"


def test_only_code_counts(tmp_path: Path) -> None:
    def digests(python: str, snakemake: str) -> str:
        (tmp_path / "a.py").write_text(python)
        (tmp_path / "a.smk").write_text(snakemake)
        return digest(("*.py", "*.smk"), tmp_path)

    original = digests("def f(x):\n    return x + 1\n", "rule a:\n    shell: 'true'\n")
    documented = 'def f(x):\n    """Text."""\n    return x+1  # more\n'
    assert digests(documented, "# text\nrule a:\n\n    shell: 'true'\n") == original
    for python in (
        "def f(x):\n    return x + 2\n",
        "def f(x):\n    return x + 1.0\n",
        "f = None\n",
    ):
        assert digests(python, "rule a:\n    shell: 'true'\n") != original
    assert digests("def f(x):\n    return x + 1\n", "rule a:\n    shell: 'false'\n") != original


@pytest.mark.parametrize("name", STAGES)
def test_every_pattern_of_a_stage_has_files(name: str) -> None:
    for pattern in STAGES[name].covers:
        assert digest((pattern,)) != digest(())
