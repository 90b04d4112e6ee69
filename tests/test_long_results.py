"""Results of the long tests are of the code as it is now."""

from pathlib import Path

import pytest

from tests.long import STAGES, digest, rows


@pytest.mark.parametrize("name", rows())  # the other stages have never run
def test_the_last_result_of_a_long_stage_is_of_this_code(name: str) -> None:
    advice = f'run `make test-long ARGS="{name}"` and commit tests/long_results.md'
    _, result, _, commit, code = rows()[name]
    assert result.startswith("passed"), f"{name} failed at {commit}; after a repair, {advice}"
    assert code == digest(STAGES[name].covers), f"the code of {name} has changed: {advice}"
    assert all(digest([pattern]) != digest([]) for pattern in STAGES[name].covers)


def test_only_a_change_of_code_counts(tmp_path: Path) -> None:
    def digest_of(python: str, snakemake: str = "rule a:\n    shell: 'true'\n") -> str:
        (tmp_path / "a.py").write_text(python)
        (tmp_path / "a.smk").write_text(snakemake)
        return digest(["*.py", "*.smk"], tmp_path)

    function = "def f(x):\n    return x + 1\n"
    documented = 'import os\n\ndef f(x):\n    """Text."""\n    return x+1  # more\n'
    rule = "# text\nrule a:\n\n    shell: 'true'\n"
    assert digest_of(documented, rule) == digest_of(function)
    changed = [digest_of(function.replace("1", other)) for other in ("2", "1.0", "True", "x")]
    changed.append(digest_of(function, "rule a:\n    shell: 'false'\n"))
    assert len({*changed, digest_of(function)}) == 6
