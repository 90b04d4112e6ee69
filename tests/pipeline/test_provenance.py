"""What the provenance of a file says of the processor."""

import json
from pathlib import Path

import pytest

from rspo.pipeline import provenance
from rspo.pipeline.provenance import provenance_path, write_provenance
from rspo.pipeline.task import Done

TWO_PROCESSORS = """processor	: 0
vendor_id	: AuthenticAMD
cpu family	: 26
model		: 2
model name	: AMD EPYC
stepping	: 1
flags		: fpu sse2 avx512f
bogomips	: 5192.19

processor	: 1
cpu family	: 25
flags		: fpu
"""


@pytest.fixture(autouse=True)
def _read_again() -> None:
    provenance._cpu_information.cache_clear()
    provenance._processor.cache_clear()


def test_processors_of_one_name_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(TWO_PROCESSORS)
    monkeypatch.setattr(provenance, "CPU_INFORMATION", tmp_path / "cpuinfo")
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    file = tmp_path / "result.csv"
    file.write_text("1\n")
    write_provenance(file, {}, {}, Done())
    note = json.loads(provenance_path(file).read_text())
    assert note["processor"] == "AMD EPYC"
    assert note["cpu"] == {
        "vendor": "AuthenticAMD",
        "family": "26",
        "model": "2",
        "stepping": "1",
        "flags": "fpu sse2 avx512f",
    }


def test_a_system_that_says_nothing_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "CPU_INFORMATION", tmp_path / "missing")
    assert provenance._cpu() == {}
    assert provenance._processor()


def test_the_provenance_of_this_machine_has_its_family_model_and_flags() -> None:
    cpu = provenance._cpu()
    assert cpu["family"].isdigit()
    assert cpu["model"].isdigit()
    assert "sse2" in cpu["flags"].split()
