"""What the log handler leaves out of an error: the places in this package that raised it."""

import pytest

from rspo.snakemake.progress import _without_places

RUN = '"/home/me/rspo/snakemake/patches.py", line 102, in run_all'


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (
            "WorkflowError:\nno room\n"
            '  File "/home/me/rspo/snakemake/plan_check.py", line 80, in check_plan',
            "error: no room",
        ),
        (
            'WorkflowError in file "/home/me/workflow/rules/run.smk", line 11:\nno room\n'
            f"  File {RUN}\n"
            '  File "/home/me/rspo/snakemake/start.py", line 112, in start_run',
            "error: no room",
        ),
        (
            "NoAnswer:\nSLURM is silent\n"
            '  File "/x/snakemake_executor_plugin_slurm_patient/queue.py", line 5, in ask',
            "error: SLURM is silent",
        ),
    ],
)
def test_errors_of_this_package_are_their_message(text: str, printed: str) -> None:
    assert _without_places(text) == printed


@pytest.mark.parametrize("kind", ["KeyError", "WorkflowError"])
def test_an_error_of_a_users_own_snakefile_keeps_its_type_and_places(kind: str) -> None:
    """This package calls the user's `onstart`, so it is among the places."""
    text = (
        f"{kind} in file \"/home/me/Snakefile\", line 4:\n'mine'\n"
        f"  File {RUN}\n"
        '  File "/home/me/Snakefile", line 4, in __onstart'
    )
    assert _without_places(text) == text
