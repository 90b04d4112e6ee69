"""`rspo doctor` against a real SLURM: each wrong thing is one line that says what to change.

About three minutes.
"""

import errno
import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import snakemake.cli  # noqa: F401  # looks for a shell, which some tests hide
import yaml

from rspo.config.experiment import Experiment
from rspo.core.errors import InputError
from rspo.slurm import doctor as doctor_module
from rspo.slurm.cluster import Slurm
from rspo.slurm.doctor import findings
from tests.support import ROOT, slurm_cluster, slurm_world
from tests.support.slurm_cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.slurm]
NODES = 2  # of the fixture `cluster`


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return slurm_world.make_project(tmp_path / "project")


def edit(project: Path, section: str, rule: str | None = None, **values: Any) -> None:
    path = project / "slurm" / "config.yaml"
    profile = yaml.safe_load(path.read_text())
    place = profile[section] if rule is None else profile[section][rule]
    place |= values
    path.write_text(yaml.safe_dump(profile))


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


def changes(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.stderr == ""
    found = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if line[0] == "c"]
    assert done.returncode == (2 if found else 0)
    return found


def test_the_shipped_profile_fits_such_a_cluster(cluster: Cluster, project: Path) -> None:
    done = doctor(project, cluster.environment)
    assert changes(done) == []
    for partition in ("cpu", "gpu"):
        line = f"partition {partition}: a node sees this folder, its locks, this software and SLURM"
        assert line in done.stdout
    assert cluster.jobs() == []  # not even the one that was asked about
    assert done.stdout.endswith("nothing to change\n")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"slurm_partition": "h800s"},
            "slurm_partition = 'h800s' does not exist here; has cpu, gpu, short, urgent",
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
            "runtime = 24h is longer than partition short allows; set 1m (a training then takes "
            "several jobs)",
        ),
        ({"mem_mb": 2_000_000}, "mem_mb = 2000000: its nodes have 1000000"),
        ({"cpus_per_task": 500}, "cpus_per_task = 500: its nodes have 128"),
        (
            {"slurm_extra": "'--open-mode=append'"},
            "slurm_extra has no --signal=USR1@SECONDS: a job would be ended at its time limit "
            "without a checkpoint; set '--signal=USR1@600'",
        ),
    ],
)
def test_each_wrong_line_is_named_with_what_to_write(
    cluster: Cluster, project: Path, values: dict[str, Any], expected: str
) -> None:
    edit(project, "set-resources", "train", **values)
    (line,) = changes(doctor(project, cluster.environment))
    assert line == f"slurm/config.yaml: set-resources.train.{expected}"


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


def test_what_slurm_itself_refuses_is_told_in_its_words(cluster: Cluster, project: Path) -> None:
    edit(project, "set-resources", "train", constraint="nvlink")
    (line,) = changes(doctor(project, cluster.environment))
    assert line.startswith("slurm/config.yaml: set-resources.train: sbatch --partition=gpu ")
    assert line.endswith("Invalid feature specification")


def test_a_partition_whose_preempted_jobs_are_cancelled_is_found(
    cluster: Cluster, project: Path
) -> None:
    cluster.command("scontrol", "update", "PartitionName=gpu", "PreemptMode=CANCEL")
    try:
        (line,) = changes(doctor(project, cluster.environment))
    finally:
        cluster.command("scontrol", "update", "PartitionName=gpu", "PreemptMode=REQUEUE")
    assert line.startswith("SLURM cancels preempted jobs of partition gpu (PreemptMode = CANCEL)")


def test_a_cluster_that_takes_no_job_back_is_found(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as by rules of its own that no setting tells."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", cluster.environment["PATH"])
    ask = Slurm.ask

    def refused(slurm: Slurm, *words: str, seconds: float = 60) -> str:
        return ask(slurm, *words, seconds=seconds).replace("Requeue=1", "Requeue=0")

    monkeypatch.setattr(Slurm, "ask", refused)
    (line,) = findings(Experiment.load("tiny", root=project))[0]
    assert line.startswith("slurm/config.yaml: set-resources.train: SLURM takes no such job back")
    assert "and slurm-requeue: false, or Snakemake leaves a job whose node is lost" in line
    assert cluster.jobs() == []


def in_this_process(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[str]]:
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", cluster.environment["PATH"])
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return findings(Experiment.load("tiny", root=project))


def test_a_reservation_for_all_jobs_is_part_of_every_question(
    cluster: Cluster, project: Path
) -> None:
    edit(project, "set-resources", "train", constraint="nvlink")
    profile = yaml.safe_load((project / "slurm" / "config.yaml").read_text())
    profile["slurm-reservation"] = "nobodys"
    (project / "slurm" / "config.yaml").write_text(yaml.safe_dump(profile))
    found = changes(doctor(project, cluster.environment))
    assert len(found) == 4  # of each class, and no second time by the node that none gets
    assert all("--reservation=nobodys: " in line for line in found)


@pytest.mark.parametrize("partition", ["gpu", None])
def test_a_node_is_asked_for_where_the_jobs_will_run(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch, partition: str | None
) -> None:
    """All that decides on where, and neither the signal nor the GPUs of a whole node."""
    edit(
        project,
        "set-resources",
        "train",
        slurm_partition=partition,
        qos="high",
        slurm_extra="'--signal=USR1@600 -x n2 --nodelist n1'",
    )
    asked = []
    ask = Slurm.ask

    def granted(slurm: Slurm, *words: str, seconds: float = 60) -> str:
        if words[0] == "srun":
            asked.append(words[: words.index("/bin/sh")])
        return ask(slurm, *words, seconds=seconds)

    monkeypatch.setattr(Slurm, "ask", granted)
    change, notes = in_this_process(cluster, project, monkeypatch)
    assert change == []
    name = f"partition {partition}" if partition else "the default partition"
    fine = "a node sees this folder, its locks, this software and SLURM"
    assert f"{name} --qos=high -x n2 --nodelist n1: {fine}" in notes
    where = [f"--partition={partition}"] if partition else []
    assert list(asked[-1][4:]) == [
        *where,
        *["--qos=high", "-x", "n2", "--nodelist", "n1", "--gres=gpu:h800:1"],
    ]


def test_only_nodes_at_work_leave_a_partition_unchecked(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_module, "PROBE_SECONDS", 3)
    whole = ["--partition=cpu", "--nodes=2", "--exclusive", "--output=/dev/null"]
    number = cluster.command("sbatch", "--parsable", *whole, "--wrap", "sleep 100")
    try:
        change, notes = in_this_process(cluster, project, monkeypatch)
    finally:
        cluster.command("scancel", number)
        cluster.wait_until_idle()
    assert change == []
    unchecked = [line for line in notes if ": no node was free: files and software not" in line]
    assert len(unchecked) == 2


def test_a_node_that_is_refused_is_told_in_slurms_words(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a partition that needs a QOS, which only accounting knows."""
    ask = Slurm.ask
    words = "srun: error: Unable to allocate resources: Invalid qos specification"

    def refused(slurm: Slurm, *asked: str, seconds: float = 60) -> str:
        if asked[0] == "srun":
            raise InputError(words)
        return ask(slurm, *asked, seconds=seconds)

    monkeypatch.setattr(Slurm, "ask", refused)
    change, _ = in_this_process(cluster, project, monkeypatch)
    assert [line.split(":")[0] for line in change] == ["partition cpu", "partition gpu"]
    assert all(line.endswith(words) for line in change)


def set_precommand(project: Path, command: str) -> None:
    path = project / "slurm" / "config.yaml"
    profile = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(profile | {"precommand": command}))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("module load cuda && export HF_HUB_OFFLINE=1", "module: not found"),
        ("export HF_HUB_OFFLINE=1; echo no licence today; false", "no licence today"),
        ("export HF_HUB_OFFLINE=1;", "Syntax error"),
    ],
)
def test_a_first_command_that_fails_on_a_node_is_told_in_its_words(
    cluster: Cluster, project: Path, command: str, words: str
) -> None:
    set_precommand(project, command)
    found = changes(doctor(project, cluster.environment))
    for line, partition in zip(found, ("cpu", "gpu"), strict=True):
        start = f"partition {partition}: on a node slurm/config.yaml's precommand `{command}` fails"
        assert line.startswith(start)
        assert words in line.removeprefix(start)


def test_a_first_command_is_run_as_the_plugin_runs_it(cluster: Cluster, project: Path) -> None:
    """With this host's variables put in by the shell that submits, and the job's own by its own."""
    set_precommand(
        project,
        'echo some words && test "$RSPO_HERE" = here && test -n "\\$SLURM_JOB_ID" && '
        "export HF_HUB_OFFLINE=1",
    )
    done = doctor(project, cluster.environment | {"RSPO_HERE": "here"})
    assert changes(done) == []
    assert done.stdout.count("a node sees this folder") == 2


def test_software_that_fails_behind_a_first_command_is_no_fault_of_it(
    cluster: Cluster, project: Path
) -> None:
    set_precommand(project, "export HF_HUB_OFFLINE=1 PYTHONHOME=/nowhere")
    found = changes(doctor(project, cluster.environment))
    assert len(found) == 2
    assert all("a node cannot run " in line and "precommand" not in line for line in found)


@pytest.mark.parametrize(
    ("command", "noted"), [("module load cuda", 1), ("", 1), ("export HF_HUB_OFFLINE=1", 0)]
)
def test_jobs_that_would_ask_the_hub_are_noted(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: str, noted: int
) -> None:
    set_precommand(project, command)
    notes = paper_without_slurm(project, monkeypatch)[1]
    assert len([line for line in notes if "has no export HF_HUB_OFFLINE=1" in line]) == noted


def test_commands_of_slurm_that_jobs_cannot_use_are_found(cluster: Cluster, project: Path) -> None:
    """Jobs do not have SLURM_CONF: Snakemake's plugin takes it away."""
    bare = cluster.environment | {"PATH": slurm_cluster.PATH}
    found = changes(doctor(project, bare))
    lost = {
        "srun --version": "no job could start its step",
        "scontrol ping": "no job could put itself back into the queue",
    }
    for line, (partition, command) in zip(
        found, itertools.product(("cpu", "gpu"), lost), strict=True
    ):
        assert line.startswith(f"partition {partition}: on a node `{command}` fails (")
        assert f"): {lost[command]}; SLURM's commands must be there" in line


def test_a_cluster_that_hides_jobs_is_noted(
    cluster: Cluster, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Slurm.ask

    def hiding(slurm: Slurm, *words: str, seconds: float = 60) -> str:
        said = ask(slurm, *words, seconds=seconds)
        return re.sub(r"(PrivateData +=) none", r"\1 accounts,jobs", said)

    assert not any(
        "PrivateData" in line for line in in_this_process(cluster, project, monkeypatch)[1]
    )
    monkeypatch.setattr(Slurm, "ask", hiding)
    _, notes = in_this_process(cluster, project, monkeypatch)
    assert len([line for line in notes if "PrivateData" in line]) == 1


@pytest.mark.parametrize(
    ("verifier", "url", "needed"),
    [
        ("xverify", None, True),
        ("xverify", "http://judge:8000", False),
        ("math_verify", None, False),
    ],
)
def test_a_gpu_for_scoring_without_a_judge_of_its_own_is_noted(
    project: Path, monkeypatch: pytest.MonkeyPatch, verifier: str, url: str | None, needed: bool
) -> None:
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", str(project))  # no SLURM
    settings = {"verifier": verifier, "xverify": {"url": url}}
    notes = findings(Experiment.load("paper", settings, root=project))[1]
    key = "slurm/config.yaml: set-resources.score asks for gpu:h800:1, which is not needed"
    assert [line.startswith(key) for line in notes] == [*[True] * (not needed), False]


def paper_without_slurm(
    project: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> tuple[list[str], list[str]]:
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", str(project))
    judge = {"xverify": {"url": "http://judge:8000"}}
    return findings(Experiment.load("paper", judge | settings, root=project))


@pytest.mark.parametrize(
    ("rule", "settings", "how"),
    [
        ("train", {}, "training (verl.device: cuda) needs them: set its gres"),
        (
            "train_on_nodes",
            {"verl": {"nodes": 2}},
            "training (verl.device: cuda) needs them: set --gpus-per-node=TYPE:NUMBER in its "
            "slurm_extra",
        ),
        ("sample", {}, "sampling (sampler: vllm) needs them: set its gres"),
    ],
)
@pytest.mark.parametrize("missing", ["line", "entry"])
def test_a_class_that_needs_gpus_and_asks_for_none_is_found(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    rule: str,
    settings: dict[str, Any],
    how: str,
    missing: str,
) -> None:
    path = project / "slurm" / "config.yaml"
    profile = yaml.safe_load(path.read_text())
    entry = profile["set-resources"].pop(rule)
    if missing == "line":
        entry.pop("gres", None)
        extra = "'--signal=USR1@600 --open-mode=append'"
        profile["set-resources"][rule] = entry | {"slurm_extra": extra}
    path.write_text(yaml.safe_dump(profile))
    (line,) = paper_without_slurm(project, monkeypatch, **settings)[0]
    assert line == f"slurm/config.yaml: set-resources.{rule} asks for no GPU, and {how}"


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        ("score", {}),
        ("agreement", {"verifier": "math_verify", "agreement": {"against": "xverify"}}),
    ],
)
@pytest.mark.parametrize("url", [None, "http://judge:8000"])
def test_a_judge_that_would_start_on_a_node_without_gpus_is_found(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    rule: str,
    settings: dict[str, Any],
    url: str | None,
) -> None:
    edit(project, "set-resources", "score", gres=None)
    change = paper_without_slurm(project, monkeypatch, xverify={"url": url}, **settings)[0]
    line = (
        f"slurm/config.yaml: set-resources.{rule} asks for no GPU, and a judge of its own "
        "(xverify.url: null) needs them: set its gres"
    )
    assert [found for found in change if f".{rule} asks for" in found] == [line] * (url is None)


def test_a_file_system_without_locks_is_found_beside_the_rest(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    edit(project, "set-resources", "sample", gres=None)
    monkeypatch.setattr("fcntl.flock", refuse)
    gpus, locks = paper_without_slurm(project, monkeypatch)[0]
    assert "sample asks for no GPU" in gpus
    assert locks == (
        f"{project}: this file system gives no locks (No locks available); mount it with flock "
        "(Lustre: -o flock; NFS: version 4), or run this on another one"
    )


@pytest.mark.parametrize("words", ["--gpus=8", "-G 8", "--gres=gpu:8", "--gres gpu:h800:8"])
def test_gpus_may_be_asked_for_in_words_of_sbatchs(
    project: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    extra = f"'{words} --signal=USR1@600'"
    edit(project, "set-resources", "train", gres=None, slurm_extra=extra)
    assert paper_without_slurm(project, monkeypatch)[0] == []


def test_gpus_for_work_on_cpus_are_noted(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", str(project))  # no SLURM
    notes = findings(Experiment.load("tiny", root=project))[1]
    assert [line for line in notes if "is not needed" in line] == [
        f"slurm/config.yaml: set-resources.{rule} asks for gpu:h800:{gpus}, which is not needed: "
        f"{reason}; its line can go"
        for rule, gpus, reason in (
            ("sample", 1, "sampling runs on CPUs (sampler: torch)"),
            ("score", 1, "scoring starts no judge model (the verifier needs none)"),
            ("train", 8, "training runs on CPUs (engine: local)"),
        )
    ]


def test_a_signal_too_late_for_a_step_and_a_checkpoint_is_found(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand: 4 steps of 16 h / 580, and 16 bytes of 7.62e9 numbers at a GB/s: 519.2 seconds."""
    shutil.copy(ROOT / "config" / "paper.yaml", project / "config")
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", str(project))  # no SLURM
    paper = Experiment.load("paper", {"xverify": {"url": "http://judge:8000"}}, root=project)
    for seconds, found in ((520, 0), (519, 1)):
        extra = f"'--signal=USR1@{seconds}'"
        edit(project, "set-resources", "train", slurm_extra=extra)
        assert len(findings(paper)[0]) == found
    assert findings(paper)[0][0].endswith("a step and a checkpoint; set '--signal=USR1@600'")


@pytest.mark.parametrize(
    ("runtime", "seconds", "found"),
    [(1, 600, "1m"), (5, 600, "5m"), (10, 600, "10m"), (11, 600, None), (None, 600, None)],
)
def test_a_time_limit_that_the_signal_uses_up_is_found(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    runtime: int | None,
    seconds: int,
    found: str | None,
) -> None:
    extra = f"'--signal=USR1@{seconds}'"
    edit(project, "set-resources", "train", runtime=runtime, slurm_extra=extra)
    assert paper_without_slurm(project, monkeypatch)[0] == [
        f"slurm/config.yaml: set-resources.train.runtime = {found} is no longer than the 600 "
        "seconds of --signal: every job is told to stop as it starts; set 30m or more: these "
        "seconds and the minutes that a start takes"
    ] * (found is not None)


def test_only_a_training_goes_on_in_another_job(cluster: Cluster, project: Path) -> None:
    edit(project, "default-resources", slurm_partition="short")
    (line,) = changes(doctor(project, cluster.environment))
    assert line.endswith("runtime = 4h is longer than partition short allows; set 1m")


def test_more_nodes_than_there_are_is_found(cluster: Cluster, project: Path) -> None:
    several = ["--set", "engine=verl", "--set", "verl.nodes=2"]
    assert changes(doctor(project, cluster.environment, *several)) == []
    several[-1] = "verl.nodes=4"
    (line,) = changes(doctor(project, cluster.environment, *several))
    assert line.startswith("verl.nodes = 4: partition gpu has 2 such nodes")


def test_a_folder_that_the_nodes_do_not_see_is_found(cluster: Cluster, tmp_path: Path) -> None:
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
    found = changes(done)
    assert len(found) == 2  # for each partition
    assert all("a node does not see" in line or "cannot run" in line for line in found)


def test_a_judge_that_training_cannot_start_is_found(cluster: Cluster, project: Path) -> None:
    """The paper's scale as shipped: the policy has all GPUs, so the judge must run elsewhere."""
    paper = ROOT / "config" / "paper.yaml"
    (project / "config" / "paper.yaml").write_text(paper.read_text())
    (line,) = changes(doctor(project, cluster.environment, "--scale", "paper"))
    assert line.startswith("config/paper.yaml: xverify.url is null")
    url = ["--set", "xverify.url=http://judge:8000"]
    assert changes(doctor(project, cluster.environment, "--scale", "paper", *url)) == []


def test_a_controller_that_does_not_answer_is_one_line(project: Path, tmp_path: Path) -> None:
    slurm_cluster.require_slurm()
    nowhere = os.environ | {"SLURM_CONF": str(tmp_path / "slurm.conf")}
    done = doctor(project, nowhere)
    assert done.returncode == 2
    assert done.stderr.startswith("rspo: error: SLURM does not answer (sinfo: ")
    assert done.stderr.count("\n") == 1
