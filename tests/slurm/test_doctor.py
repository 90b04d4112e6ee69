"""`rspo doctor` on a real SLURM: each problem is one line that says what to change.

About three minutes.
"""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import snakemake.cli  # noqa: F401  # looks for a shell, which some tests hide
import yaml

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.slurm import node_checks
from rspo.slurm.cluster import Slurm
from rspo.slurm.doctor import findings
from rspo.slurm.launch import Kind
from tests.support import ROOT, slurm_cluster, slurm_world
from tests.support.slurm_cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.slurm]
NODES = 2  # of the fixture `cluster`


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return slurm_world.make_project(tmp_path / "project")


def doctor(
    project: Path, environment: dict[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rspo.cli", "doctor", *words],
        cwd=project,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def problems(done: subprocess.CompletedProcess[str], kind: str) -> list[str]:
    """The findings of a kind; there must be no other problem."""
    assert done.stderr == ""
    kinds = {line[:9].strip() for line in done.stdout.splitlines() if line[:2] != "no"}
    assert kinds <= {kind, ""}
    found = [line[9:] for line in done.stdout.splitlines() if line.startswith(kind)]
    assert done.returncode == (2 if found else 0)
    return found


def warnings(done: subprocess.CompletedProcess[str]) -> list[str]:
    return problems(done, "warning")


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    return problems(done, "error")


def test_the_shipped_profile_fits_such_a_cluster(cluster: Cluster, project: Path) -> None:
    done = doctor(project, cluster.environment)
    assert errors(done) == []
    for partition in ("cpu", "gpu"):
        line = "node n[12] sees this folder, its locks, this software and SLURM"
        assert re.search(f"partition {partition}: {line}", done.stdout)
    assert cluster.jobs() == []  # not even the one that was asked about
    assert done.stdout.endswith("nothing to change\n")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"slurm_partition": "h800s"},
            "slurm_partition = 'h800s' does not exist here; allowed: cpu, gpu, short, urgent",
        ),
        (
            {"gres": "gpu:a100:8"},
            "gres = 'gpu:a100:8': the nodes of partition gpu have gpu:h800:8",
        ),
        (
            {"gres": "gpu:h800:16"},
            "gres = 'gpu:h800:16': the nodes of partition gpu have gpu:h800:8",
        ),
        (
            {"slurm_partition": "short"},
            "runtime = 24h is longer than partition short allows; set 1m (each training then takes "
            "several jobs)",
        ),
        ({"mem_mb": 2_000_000}, "mem_mb = 2000000: its nodes have 1000000"),
        ({"cpus_per_task": 500}, "cpus_per_task = 500: its nodes have 128"),
    ],
)
def test_each_wrong_value_is_reported_with_a_correct_one(
    cluster: Cluster, project: Path, values: dict[str, Any], expected: str
) -> None:
    slurm_world.edit_profile(project, "set-resources", "train", **values)
    (line,) = errors(doctor(project, cluster.environment))
    assert line == f"slurm/config.yaml: set-resources.train.{expected}"


def test_a_training_without_a_signal_should_change(cluster: Cluster, project: Path) -> None:
    extra = "'--open-mode=append'"
    slurm_world.edit_profile(project, "set-resources", "train", slurm_extra=extra)
    (line,) = warnings(doctor(project, cluster.environment))
    assert line == (
        "slurm/config.yaml: set-resources.train.slurm_extra has no --signal=USR1@SECONDS: SLURM "
        "would kill a job at its time limit without a checkpoint; set '--signal=USR1@600'"
    )


def test_a_mistyped_name_stops_before_any_job_is_submitted(cluster: Cluster, project: Path) -> None:
    """Snakemake takes it for a rule that is not there; training would run without a GPU."""
    path = project / "slurm" / "config.yaml"
    path.write_text(path.read_text().replace("train: &training", "trian: &training"))
    line = "slurm/config.yaml: set-resources.trian: no such rule; did you mean train?"
    done = doctor(project, cluster.environment)
    assert (done.returncode, done.stderr) == (2, f"rspo: error: {line}\n")
    status, output = slurm_world.run(cluster, project, slurm_world.FIGURE)
    assert status == 1
    assert f"\n{line}\n" in output
    assert not (project / "logs" / "slurm").exists()
    assert cluster.jobs() == []


def test_a_refusal_of_slurm_is_quoted(cluster: Cluster, project: Path) -> None:
    slurm_world.edit_profile(project, "set-resources", "train", constraint="nvlink")
    (line,) = errors(doctor(project, cluster.environment))
    assert line.startswith("slurm/config.yaml: set-resources.train: sbatch --partition=gpu ")
    assert line.endswith("Invalid feature specification")


def test_a_partition_that_cancels_preempted_jobs_is_reported(
    cluster: Cluster, project: Path
) -> None:
    cluster.command("scontrol", "update", "PartitionName=gpu", "PreemptMode=CANCEL")
    try:
        (line,) = warnings(doctor(project, cluster.environment))
    finally:
        cluster.command("scontrol", "update", "PartitionName=gpu", "PreemptMode=REQUEUE")
    assert line.startswith("SLURM cancels preempted jobs of partition gpu (PreemptMode = CANCEL)")


def test_a_cluster_without_requeue_is_reported(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a submit plugin, which no setting shows."""
    change_answers(monkeypatch, lambda words, answer: answer().replace("Requeue=1", "Requeue=0"))
    ((kind, line),) = in_this_process(cluster, project, monkeypatch)[0]
    assert kind is Kind.WARNING
    assert line.startswith(
        "slurm/config.yaml: set-resources.train: SLURM does not requeue such jobs"
    )
    assert (
        "and slurm-patient-requeue: false (otherwise Snakemake does not retry a job whose node is "
        "lost)" in line
    )
    cluster.wait_until_idle()  # a job that was left would be held forever
    path = project / "slurm" / "config.yaml"
    path.write_text(path.read_text().replace("&requeue true", "&requeue false"))
    assert in_this_process(cluster, project, monkeypatch)[0] == []


def change_answers(
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[tuple[str, ...], Callable[[], str]], str],
) -> None:
    """Replace SLURM's answers by `change(command, answer)`; `answer()` runs the command."""
    ask = Slurm.ask

    def changed(slurm: Slurm, *words: str, seconds: float = 60) -> str:
        return change(words, lambda: ask(slurm, *words, seconds=seconds))

    monkeypatch.setattr(Slurm, "ask", changed)


def in_this_process(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[tuple[Kind, str]], list[str]]:
    """The problems and the notes."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", cluster.environment["PATH"])
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    found = [(finding.kind, finding.line) for finding in findings(Experiment.load("tiny"))]
    notes = [line for kind, line in found if kind is Kind.INFO]
    return [problem for problem in found if problem[0] is not Kind.INFO], notes


def test_a_reservation_for_all_jobs_is_part_of_every_check(cluster: Cluster, project: Path) -> None:
    profile = yaml.safe_load((project / "slurm" / "config.yaml").read_text())
    profile["slurm-patient-reservation"] = "nobodys"
    (project / "slurm" / "config.yaml").write_text(yaml.safe_dump(profile))
    # One line for all classes, and no second one by the node that none gets.
    (line,) = errors(doctor(project, cluster.environment))
    assert line.startswith("slurm/config.yaml: SLURM accepts no job (")
    assert line.endswith("): set slurm-patient-reservation")


@pytest.mark.parametrize("partition", ["gpu", None])
def test_the_checked_node_is_one_that_the_jobs_may_get(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch, partition: str | None
) -> None:
    """Options that decide on nodes apply; the signal and seven of the eight GPUs do not."""
    slurm_world.edit_profile(
        project,
        "set-resources",
        "train",
        slurm_partition=partition,
        qos="high",
        slurm_extra="'--signal=USR1@600 -x n2 --nodelist n1'",
    )
    asked = []

    def record(words: tuple[str, ...], answer: Callable[[], str]) -> str:
        if words[0] == "srun":
            asked.append(words[: words.index("/bin/sh")])
        return answer()

    change_answers(monkeypatch, record)
    change, notes = in_this_process(cluster, project, monkeypatch)
    assert change == []
    name = f"partition {partition}" if partition else "the default partition"
    fine = "node n1 sees this folder, its locks, this software and SLURM"
    start = f"{name} --qos=high -x n2 --nodelist n1: {fine} (torch 2."
    assert any(note.startswith(start) for note in notes)
    where = [f"--partition={partition}"] if partition else []
    assert list(asked[-1][5:]) == [
        *where,
        *["--qos=high", "-x", "n2", "--nodelist", "n1", "--gres=gpu:h800:1"],
    ]


def test_a_partition_without_free_nodes_is_not_checked(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_checks, "PROBE_SECONDS", 3)
    whole = ["--partition=cpu", "--nodes=2", "--exclusive", "--output=/dev/null"]
    number = cluster.command("sbatch", "--parsable", *whole, "--wrap", "sleep 100")
    try:
        change, notes = in_this_process(cluster, project, monkeypatch)
    finally:
        cluster.command("scancel", number)
        cluster.wait_until_idle()
    assert change == []
    unchecked = [line for line in notes if ": files and software were not checked" in line]
    assert len(unchecked) == 2


@pytest.mark.parametrize(
    "message",
    [
        "srun: error: Unable to allocate resources: Invalid qos specification",
        "srun: error: Node failure on n1",
    ],
)
def test_a_node_that_slurm_does_not_grant_is_not_checked(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    """A cluster may forbid `srun`, or lose the node; jobs of `sbatch` would start nevertheless."""

    def refuse(words: tuple[str, ...], answer: Callable[[], str]) -> str:
        if words[0] == "srun":
            raise InputError(message)
        return answer()

    change_answers(monkeypatch, refuse)
    change, notes = in_this_process(cluster, project, monkeypatch)
    assert change == []
    assert [note for note in notes if note.endswith(f"not checked on a node ({message})")] == [
        f"partition {name}: files and software were not checked on a node ({message})"
        for name in ("cpu", "gpu")
    ]


def test_nodes_that_are_down_are_no_reason_to_refuse(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs wait for them. `sbatch --test-only` refuses such jobs."""
    monkeypatch.setattr(node_checks, "PROBE_SECONDS", 3)
    drain = ["update", f"NodeName={','.join(cluster.nodes)}", "Reason=test"]
    cluster.command("scontrol", *drain, "State=DRAIN")
    try:
        change, notes = in_this_process(cluster, project, monkeypatch)
    finally:
        cluster.command("scontrol", *drain[:-1], "State=RESUME")
        cluster.wait_until_idle()
    assert change == []
    assert len([line for line in notes if "were not checked on a node" in line]) == 2


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("module load cuda && export HF_HUB_OFFLINE=1", "module: not found"),
        ("export HF_HUB_OFFLINE=1; echo no licence today; false", "no licence today"),
        ("export HF_HUB_OFFLINE=1;", "Syntax error"),
    ],
)
def test_a_precommand_that_fails_on_a_node_is_reported(
    cluster: Cluster, project: Path, command: str, words: str
) -> None:
    slurm_world.set_precommand(project, command)
    found = errors(doctor(project, cluster.environment))
    for line, partition in zip(found, ("cpu", "gpu"), strict=True):
        reason, _, rest = line.partition(" (running ")
        assert rest == f"slurm/config.yaml's precommand `{command}`)"
        assert re.match(f"partition {partition}: node n[12]: ", reason)
        assert words in reason
        assert "srun: " not in reason


def test_a_precommand_is_run_as_the_plugin_runs_it(cluster: Cluster, project: Path) -> None:
    """This host's variables are expanded here, escaped ones in the job."""
    slurm_world.set_precommand(
        project,
        'echo some words && test "$RSPO_HERE" = here && test -n "\\$SLURM_JOB_ID" && '
        "export HF_HUB_OFFLINE=1",
    )
    done = doctor(project, cluster.environment | {"RSPO_HERE": "here"})
    assert errors(done) == []
    assert done.stdout.count(" sees this folder") == 2


def test_software_that_fails_after_the_precommand_is_reported(
    cluster: Cluster, project: Path
) -> None:
    slurm_world.set_precommand(project, "export HF_HUB_OFFLINE=1 PYTHONHOME=/nowhere")
    found = errors(doctor(project, cluster.environment))
    assert len(found) == 2
    assert all("(running " in line and "precommand" not in line for line in found)


def test_slurm_commands_that_fail_in_jobs_are_reported(cluster: Cluster, project: Path) -> None:
    """Snakemake's plugin removes SLURM_CONF from the environment of jobs."""
    bare = cluster.environment | {"PATH": slurm_cluster.PATH}
    done = doctor(project, bare)
    assert done.returncode == 2
    found = [line for line in done.stdout.splitlines() if line.startswith(("e", "w"))]
    lost = {
        "error    ": ("srun --version", "no job could start its step"),
        "warning  ": ("scontrol ping", "no job could requeue itself"),
    }
    for line, (kind, partition) in zip(found, itertools.product(lost, ("cpu", "gpu")), strict=True):
        command, consequence = lost[kind]
        start = f"{kind}partition {partition}: node n[12] cannot run `{command}` \\("
        assert re.match(start, line)
        assert f"): {consequence}; SLURM's commands must be there" in line


def test_a_cluster_that_hides_jobs_is_noted(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = r"\1 accounts,jobs"
    for number in (0, 1):
        _, notes = in_this_process(cluster, project, monkeypatch)
        assert len([line for line in notes if "PrivateData" in line]) == number
        change_answers(
            monkeypatch, lambda _, answer: re.sub(r"(PrivateData +=) none", hidden, answer())
        )


def test_only_training_continues_in_another_job(cluster: Cluster, project: Path) -> None:
    slurm_world.edit_profile(project, "default-resources", slurm_partition="short")
    (line,) = errors(doctor(project, cluster.environment))
    assert line.endswith("runtime = 4h is longer than partition short allows; set 1m")


def test_too_many_nodes_are_reported(cluster: Cluster, project: Path) -> None:
    several = ["--set", "engine=verl", "--set", "verl.nodes=2"]
    assert errors(doctor(project, cluster.environment, *several)) == []
    several[-1] = "verl.nodes=4"
    (line,) = errors(doctor(project, cluster.environment, *several))
    assert line.startswith("verl.nodes = 4: partition gpu has 2 such nodes")


def test_a_folder_that_the_nodes_do_not_see_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    """A mount that this process has and the nodes' daemons do not."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    script = (
        f"mount -t tmpfs tmpfs {hidden} && cp -r {tmp_path}/project {hidden} && "
        f"cd {hidden}/project && exec {sys.executable} -m rspo.cli doctor"
    )
    slurm_world.make_project(tmp_path / "project")
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        env=cluster.environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    found = errors(done)
    assert len(found) == 2  # for each partition
    assert all(" does not see" in line or "(running " in line for line in found)


def test_a_controller_that_does_not_answer_is_one_line(project: Path, tmp_path: Path) -> None:
    slurm_cluster.require_slurm()
    nowhere = os.environ | {"SLURM_CONF": str(tmp_path / "slurm.conf")}
    done = doctor(project, nowhere)
    (line,) = errors(done)
    assert line.startswith("SLURM does not answer (sinfo: ")
    assert line.count("sinfo: ") == 1
