"""A real SLURM on this host: a controller and several nodes, each with 8 fake H800s.

    python -m tests.support.slurm_cluster   starts one and prints how to use it; Ctrl-C stops it

The daemons are Debian's own (`apt-get install --no-install-recommends slurmctld slurmd slurm-client
munge`), run as root, without systemd, on free ports, with all their files in one temporary folder.
The GPUs are links to /dev/null; SLURM counts and grants them like real ones.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.support.processes import LONGEST_WAIT

DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo")
COMMANDS += ("sacct", "sacctmgr", "sshare")  # the plugin calls them if there is accounting
NEEDED = DAEMONS + COMMANDS
GPUS = 8
# Debian installs the daemons outside of a user's PATH.
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"

# Without cgroups, accounting or a mail program.  With SLURM's own MessageTimeout: sbatch and squeue
# give up on a controller after 9 seconds.  Requeued jobs wait for the life time of their credential
# before they start again: five seconds instead of two minutes.
CONFIG = """\
ClusterName=tiny
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
GresTypes=gpu
DefMemPerCPU=100
ReturnToService=2
MailProg=/bin/true
SlurmdTimeout=10
KillWait=3
MinJobAge=300
Prolog={folder}/prolog
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""

PARTITIONS = """\
PartitionName=cpu Nodes=ALL Default=YES MaxTime=1-00:00:00 PriorityTier=1
PartitionName=gpu Nodes=ALL MaxTime=2-00:00:00 PriorityTier=1
PartitionName=short Nodes=ALL MaxTime=00:01:00 PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=2-00:00:00 PriorityTier=9 PreemptMode=OFF
"""


_NODE_STATES = ("sinfo", "-h", "-N", "-o", "%N %T", "-p", "gpu")


@dataclass
class Cluster:
    """A running SLURM.  `environment` is what its commands and Snakemake need to reach it."""

    folder: Path
    nodes: list[str]
    daemons: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        own = {"PATH": f"{self.folder}/bin:{PATH}", "SLURM_CONF": f"{self.folder}/slurm.conf"}
        return {k: v for k, v in os.environ.items() if not k.startswith("SLURM_")} | own

    def command(self, *words: str, check: bool = True) -> str:
        """Run one of SLURM's commands; what it printed."""
        done = subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=LONGEST_WAIT
        )
        assert not check or done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout.strip()

    def jobs(self, layout: str = "%i %T") -> list[list[str]]:
        """The words of `squeue`'s line for every job that has not ended."""
        return [line.split() for line in self.command("squeue", "-h", "-o", layout).splitlines()]

    def job(self, number: str) -> dict[str, str]:
        """What `scontrol show job` says, ended jobs included."""
        words = self.command("scontrol", "-d", "-o", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    # --- daemons -----------------------------------------------------------------------------

    def start_controller(self) -> None:
        self._start("slurmctld", ["slurmctld", "-D"])
        self._wait_for("scontrol", "ping", until="is UP")

    def stop_controller(self) -> None:
        """Kill the controller, as when its machine is lost."""
        self._kill("slurmctld")

    def start_node(self, node: str, mounts: str = "") -> None:
        """Start slurmd.

        Args:
            mounts: a shell command that changes what the node's jobs see of the file system. It
                runs in a mount namespace of the node's own.
        """
        words = ["slurmd", "-D", "-N", node]
        if mounts:
            words = ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh", *words]
        self._start(node, words)

    def stop_daemon(self, node: str) -> None:
        """Kill slurmd; its jobs continue."""
        self._kill(node)

    def stop_node(self, node: str) -> None:
        """Kill slurmd and all processes of its jobs, as when a node loses power."""
        self._kill(node)  # first, so that nothing reports the end of the jobs
        _kill_jobs(self.folder, node)

    def break_launches(self, node: str) -> None:
        """Let the prolog fail on a node: SLURM drains the node, and holds the job."""
        (self.folder / f"broken-{node}").touch()

    def fix_launches(self, node: str) -> None:
        """Let the prolog succeed again; `resume_nodes` ends the drain."""
        (self.folder / f"broken-{node}").unlink(missing_ok=True)

    def resume_nodes(self) -> None:
        """Resume the drained nodes whose prolog succeeds."""
        for node, state in (line.split() for line in self.command(*_NODE_STATES).splitlines()):
            if "dra" in state and not (self.folder / f"broken-{node}").exists():
                self.command("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)

    def lose_state(self, copy: Path | None) -> None:
        """Replace the state of a killed controller by an earlier copy, or by nothing."""
        state = self.folder / "state"
        shutil.rmtree(state)
        if copy is not None and copy.exists():
            shutil.copytree(copy, state)
        else:
            state.mkdir()

    def queue(self) -> str:
        """All jobs and nodes, for messages of tests."""
        jobs = self.command("squeue", "-a", "-o", "%i %T %R %k", check=False)
        return jobs + "\n" + self.command("sinfo", "-N", "-l", check=False)

    def job_processes(self) -> list[psutil.Process]:
        """The processes of all running jobs, without SLURM's own."""
        settings = f"{self.folder}/slurm.conf"
        processes = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                environment = process.environ()
                if environment.get("SLURM_CONF") == settings and "SLURM_JOB_ID" in environment:
                    processes.append(process)
        return processes

    def wait_until_idle(self) -> None:
        """All nodes up and unused."""
        deadline = time.monotonic() + LONGEST_WAIT
        while time.monotonic() < deadline:
            states = self.command(*_NODE_STATES).split()[1::2]
            if states == ["idle"] * len(self.nodes):
                return
            time.sleep(0.1)
        raise AssertionError(self.command("sinfo", "-N", "-l"))

    def stop(self) -> None:
        """End every job, every daemon and everything that they started."""
        with suppress(AssertionError, subprocess.TimeoutExpired):
            self.command("scancel", "--user=root", "--signal=KILL", "--full", check=False)
            self.command("scancel", "--user=root", check=False)
        for name in [*self.nodes, "slurmctld", "munged"]:
            if name in self.daemons:
                self._kill(name)
        _kill_jobs(self.folder)

    def _start(self, name: str, words: list[str]) -> None:
        log = (self.folder / f"{name}.out").open("ab")
        # The daemon must not outlive a test process that is killed.
        words = ["setpriv", "--pdeathsig", "KILL", *words]
        self.daemons[name] = subprocess.Popen(
            words, env=self.environment, stdout=log, stderr=log, start_new_session=True
        )

    def _kill(self, name: str) -> None:
        daemon = self.daemons.pop(name)
        daemon.kill()
        daemon.wait()

    def _wait_for(self, *words: str, until: str) -> None:
        deadline = time.monotonic() + LONGEST_WAIT
        while until not in (said := self.command(*words, check=False)):
            assert time.monotonic() < deadline, f"{' '.join(words)}: {said}{self._logs()}"
            time.sleep(0.05)

    def _logs(self) -> str:
        return "".join(
            f"\n{p}:\n{p.read_text()[-1500:]}" for p in sorted(self.folder.glob("*.log"))
        )


def _kill_jobs(folder: Path, node: str | None = None) -> None:
    """Kill the processes of all jobs, or of those on a node, and the daemons of their steps."""
    settings = {"SLURM_CONF": f"{folder}/slurm.conf"}
    if node is not None:
        settings["SLURMD_NODENAME"] = node
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            # The daemon of a step outlives the node's daemon and has none of the job's settings.
            logs = [file.path for file in process.open_files()]
            is_daemon = any(log.startswith(f"{folder}/slurmd-{node or ''}") for log in logs)
            is_job = settings.items() <= process.environ().items()
            if (is_daemon or is_job) and process.pid != os.getpid():
                process.kill()


def _free_ports(count: int) -> list[int]:
    """Ports that nothing listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def missing() -> list[str]:
    """SLURM's programs that are not installed here."""
    return [name for name in NEEDED if shutil.which(name, path=PATH) is None]


def require_slurm() -> None:
    """Skip the test that needs SLURM where there is none; fail in CI."""
    if absent := missing():
        reason = f"no {', '.join(absent)} here"
    elif os.geteuid() != 0:
        reason = "starting SLURM's daemons needs root"
    else:
        return
    stop = pytest.fail if os.environ.get("CI") else pytest.skip
    stop(f"{reason}: SLURM cannot be tested")


@contextmanager
def started(nodes: int = 3, cpus: int = 128, megabytes: int = 1_000_000) -> Iterator[Cluster]:
    """A SLURM with nodes n1, n2, ...; stopped and removed at the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    cluster = Cluster(folder, [f"n{index + 1}" for index in range(nodes)])
    try:
        _write_config(cluster, cpus, megabytes)
        _write_commands(cluster)
        _write_prolog(cluster)
        _start_munge(cluster)
        cluster.start_controller()
        for node in cluster.nodes:
            cluster.start_node(node)
        cluster.wait_until_idle()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _write_config(cluster: Cluster, cpus: int, megabytes: int) -> None:
    folder = cluster.folder
    (folder / "state").mkdir()
    for index in range(GPUS):
        (folder / f"h800_{index}").symlink_to("/dev/null")
    controller, *ports = _free_ports(len(cluster.nodes) + 1)
    lines = [
        f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={cpus} "
        f"RealMemory={megabytes} Gres=gpu:h800:{GPUS} State=UNKNOWN"
        for node, port in zip(cluster.nodes, ports, strict=True)
    ]
    text = CONFIG.format(port=controller, folder=folder) + "\n".join(lines) + "\n" + PARTITIONS
    (folder / "slurm.conf").write_text(text)
    (folder / "gres.conf").write_text(f"Name=gpu Type=h800 File={folder}/h800_[0-{GPUS - 1}]\n")


def _write_commands(cluster: Cluster) -> None:
    """SLURM's commands for this cluster: Snakemake's plugin forgets SLURM_CONF inside a job."""
    folder = cluster.folder / "bin"
    folder.mkdir()
    for name in COMMANDS:
        real = shutil.which(name, path=PATH)
        script = folder / name
        script.write_text(f'#!/bin/sh\nSLURM_CONF={cluster.folder}/slurm.conf exec {real} "$@"\n')
        script.chmod(0o755)


def _write_prolog(cluster: Cluster) -> None:
    script = cluster.folder / "prolog"
    script.write_text(f"#!/bin/sh\ntest ! -e {cluster.folder}/broken-$SLURMD_NODENAME\n")
    script.chmod(0o755)


def _start_munge(cluster: Cluster) -> None:
    folder = cluster.folder
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    folder.chmod(0o755)
    names = {
        "--key-file": key,
        "--socket": folder / "munge.socket",
        "--pid-file": folder / "munged.pid",
        "--log-file": folder / "munged.log",
        "--seed-file": folder / "munged.seed",
    }
    options = [f"{option}={path}" for option, path in names.items()]
    # --force: it warns about a folder below /tmp.
    cluster._start("munged", ["munged", "--foreground", "--force", *options])
    deadline = time.monotonic() + LONGEST_WAIT
    while not (folder / "munge.socket").exists():
        assert time.monotonic() < deadline, (folder / "munged.out").read_text()
        time.sleep(0.02)


def main() -> None:
    if missing():
        raise SystemExit(f"not installed here: {', '.join(missing())}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # also while it starts
    with suppress(KeyboardInterrupt), started() as cluster:
        print(f"export SLURM_CONF={cluster.folder}/slurm.conf PATH={cluster.folder}/bin:$PATH")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    main()
