"""Reading SLURM's queue, with a fake `squeue`."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from snakemake_executor_plugin_slurm_patient.queue import QueuedJob, ask, jobs_in, jobs_of

ON_NODES = "n[1-2]"  # of a running job


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A fake `squeue`: call it with the records (lists of fields) to print.

    Returns the file to which it writes its options.
    """
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    script, printed, options_file = (
        tmp_path / "bin" / name for name in ("squeue", "printed", "options_file")
    )
    script.parent.mkdir()

    def fake(*records: list[str | bytes]) -> Path:
        fields = [[os.fsencode(field) for field in record] for record in records]
        printed.write_bytes(b"".join(b"\x1f".join(record) + b"\x1e\n" for record in fields))
        script.write_text(f'#!/bin/sh\necho "$@" > {options_file}\ncat {printed}\n')
        script.chmod(0o755)
        return options_file

    return fake


@pytest.mark.parametrize("name", ["project", "a|b", "a\nb", b"a\xffb"])
def test_jobs_are_found_in_a_folder_of_any_name(
    tmp_path: Path, squeue: Callable[..., Path], name: str | bytes
) -> None:
    folder = tmp_path / os.fsdecode(name)
    squeue(
        ["12", "me", "RUNNING", "1", os.fsencode(folder), ON_NODES, "rule_align_wildcards_a|b"],
        ["13", "me", "RUNNING", "0", os.fsencode(tmp_path), ON_NODES, "rule_align_wildcards_c"],
    )
    assert jobs_in(folder) == [
        QueuedJob("12", "me", "RUNNING", 1, str(folder), ON_NODES, "rule_align_wildcards_a|b")
    ]


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


def test_jobs_of_a_run_are_selected_by_its_name(squeue: Callable[..., Path]) -> None:
    options_file = squeue(
        ["12", "me", "COMPLETED", "0", "/project", ON_NODES, "rule_align_wildcards_a"]
    )
    job = jobs_of("run_1")["12"]
    assert (job.state, job.reason) == ("COMPLETED", ON_NODES)
    options = options_file.read_text().split()
    assert {"--states=all", f"--user={os.getuid()}", "--name=run_1"} <= set(options)


def test_the_users_options_of_squeue_have_no_effect(
    squeue: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUEUE_STATES", "RUNNING")
    script = squeue().with_name("squeue")
    script.write_text('#!/bin/sh\nprintf "%s" "$SQUEUE_STATES"\n')
    assert ask("squeue") == ""
