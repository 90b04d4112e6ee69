"""Reading SLURM's queue, with a fake `squeue`."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from snakemake_executor_plugin_slurm_patient.queue import NoAnswer, ask, jobs_in, jobs_of

ON_NODES = "n[1-2]"  # of a running job


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A fake `squeue`: call it with the records (lists of fields) to print; returns the script."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    script, printed = tmp_path / "bin" / "squeue", tmp_path / "bin" / "printed"
    script.parent.mkdir()

    def fake(*records: list[str | bytes]) -> Path:
        fields = [[os.fsencode(field) for field in record] for record in records]
        printed.write_bytes(b"".join(b"\x1f".join(record) + b"\x1e\n" for record in fields))
        script.write_text(f"#!/bin/sh\ncat {printed}\n")
        script.chmod(0o755)
        return script

    return fake


def test_other_users_comments_cannot_hide_a_job(
    tmp_path: Path, squeue: Callable[..., Path]
) -> None:
    squeue(
        ["10", "you", "PENDING", "0", "/home/you", ON_NODES, "a\nb|c"],
        ["11", "you", "PENDING", "0", b"/home/\xff", ON_NODES, b"\xff"],
        ["12", "you", "PENDING", "0", "/home/you", ON_NODES, "a\x1fb\x1ec"],
        ["13", "you", "PENDING", "N/A", tmp_path.as_posix(), ON_NODES, "rule_a"],
        ["14", "me", "RUNNING", "0", tmp_path.as_posix(), ON_NODES, b"rule_align_wildcards_\xff"],
    )
    ((number, comment),) = ((job.number, job.comment) for job in jobs_in(tmp_path))
    assert (number, comment) == ("14", "rule_align_wildcards_\ufffd")


def test_the_users_options_of_squeue_have_no_effect(
    squeue: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")
    script = squeue()
    script.write_text('#!/bin/sh\nprintf "%s" "$SQUEUE_STATES"\n')
    assert ask("squeue") == ""


@pytest.mark.parametrize("name", ["project", "a|b", "a\nb", b"a\xffb"])
def test_jobs_are_found_in_a_folder_of_any_name(
    tmp_path: Path, squeue: Callable[..., Path], name: str | bytes
) -> None:
    folder = tmp_path / os.fsdecode(name)
    squeue(
        ["12", "me", "RUNNING", "1", os.fsencode(folder), ON_NODES, "rule_align_wildcards_a|b"],
        ["13", "me", "RUNNING", "0", os.fsencode(tmp_path), ON_NODES, "rule_align_wildcards_c"],
    )
    assert [(job.number, job.comment) for job in jobs_in(folder)] == [
        ("12", "rule_align_wildcards_a|b")
    ]


def test_the_jobs_of_a_run_are_those_with_its_name_also_after_their_end(
    tmp_path: Path, squeue: Callable[..., Path]
) -> None:
    script = squeue(["12", "me", "COMPLETED", "0", "/project", ON_NODES, "rule_align"])
    script.write_text(f'{script.read_text()}echo "$@" > {tmp_path}/options\n')
    assert [(number, job.state) for number, job in jobs_of("run_1").items()] == [
        ("12", "COMPLETED")
    ]
    options = (tmp_path / "options").read_text().split()
    assert {"--states=all", f"--user={os.getuid()}", "--name=run_1"} <= {*options}


def test_squeue_is_asked_for_all_jobs_with_separators_that_no_field_contains(
    tmp_path: Path, squeue: Callable[..., Path]
) -> None:
    script = squeue()
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\n')
    assert jobs_of("run") == {}
    words = (tmp_path / "words").read_text().split("\n")
    assert words[:3] == ["--noheader", "--all", "--Format"]
    names = ("JobID", "UserName", "State", "RestartCnt", "WorkDir", "ReasonList")
    assert words[3] == "".join(f"{name}:\x1f," for name in names) + "Comment:\x1e"
    assert words[4:] == ["--states=all", f"--user={os.getuid()}", "--name=run", ""]


def test_a_command_that_fails_is_one_line_with_what_it_printed(squeue: Callable[..., Path]) -> None:
    squeue().write_text("#!/bin/sh\nprintf 'no\\nconfig file\\n' >&2; exit 1\n")
    with pytest.raises(NoAnswer) as error:
        ask("squeue")
    assert str(error.value) == "SLURM does not answer (squeue: no config file)"
