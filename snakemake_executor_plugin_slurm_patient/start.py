"""One start of a job. SLURM runs this program instead of `python -m snakemake`.

    python start.py -m snakemake ...         in the batch script of the job
    python start.py --step -m snakemake ...  in its step, which `srun` starts

In the batch script, the program does nothing if the outputs of the job are finished, because
Snakemake would remove them before it starts the job's command. Otherwise it starts the step, and
requeues the job if the step failed after a request to stop. In the step, it runs Snakemake. It uses
the standard library only, so that it starts fast in every job.
"""

import os
import runpy
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

TASK = "SLURM_PATIENT_TASK"  # the environment variable with the path of the task's file
START = "slurm-patient: start "  # begins the first line that each start prints
REQUEST = signal.SIGUSR1  # asks a job to write a checkpoint and to end
STOPPED = os.EX_TEMPFAIL  # 75, the exit status of a step that failed after a request to stop
SECONDS_BETWEEN_LOOKS = 2.0
# A step inherits only these variables of SLURM from the batch script; they name its job. Others,
# such as the number of tasks, would restrict the step. (Snakemake's executor plugin `slurm-jobstep`
# does the same.)
OF_THE_JOB = (
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_CLUSTER_NAME",
    "SLURM_CONF",
    "SLURM_SUBMIT_DIR",
    "SLURM_SUBMIT_HOST",
)


def say(line: str) -> None:
    """Print a line to the output of the job."""
    print(f"slurm-patient: {line}", flush=True)


def run_batch(arguments: list[str]) -> int:
    """Do the work of the batch script, and return its exit status.

    Args:
        arguments: the arguments of Python that make it run Snakemake.
    """
    # Not `import`, which would load the whole plugin, and with it Snakemake and pandas.
    task_class = runpy.run_path(str(Path(__file__).with_name("task.py")))["Task"]
    number = os.environ["SLURM_JOB_ID"]
    restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
    print(f"{START}{restarts} of job {number} on {os.environ.get('SLURMD_NODENAME')}", flush=True)
    task = task_class.read(Path(os.environ[TASK]))
    with task.locked(say):
        is_finished = task.is_finished()
        task.record_start(f"{number}.{restarts}")
        if is_finished:
            say("the outputs of this job are finished: nothing is left to do")
            return 0
        # A job without a step is an MPI job, whose command calls `srun` itself.
        status = run_step(arguments) if task.step is None else start_step(task.step, arguments)
        if status == 0:
            task.record_success()
        elif status == STOPPED and is_running():  # not if somebody has cancelled the job
            requeue(number)
    return status


def start_step(options: list[str], arguments: list[str]) -> int:
    """Start the step with `srun`, wait for it, and return its exit status."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in OF_THE_JOB or not name.startswith(("SLURM_", "SRUN_", "SBATCH_"))
    }
    command = ["srun"]
    command += options
    command += [sys.executable, str(Path(__file__).resolve()), "--step"]
    command += arguments
    return subprocess.call(command, env=environment)


def run_step(arguments: list[str]) -> int:
    """Run Snakemake, and pass requests to stop on to the command of its rule.

    Where SLURM tracks processes by cgroups, it signals only the first process of a step, which is
    this one. It passes a request on to its process group. Snakemake and its shells ignore the
    request; a command that handles it ends with an error. At a preemption with a grace time, SLURM
    sends SIGTERM, which counts as a request. Any other SIGTERM, such as that of `scancel`, is
    passed on once.

    Returns: the exit status of Snakemake, or `STOPPED` if it failed after a request.
    """
    requested = False
    terminated = False
    passed_on = False

    # The handler only notes the signal; the loop below passes it on.
    def receive(number: int, frame: object) -> None:
        nonlocal requested, terminated
        if number == REQUEST or is_preempted():
            requested = True
        else:
            terminated = True

    signal.signal(REQUEST, receive)
    signal.signal(signal.SIGTERM, receive)
    command = [sys.executable]
    command += arguments
    process = subprocess.Popen(command, preexec_fn=_ignore_requests)
    while True:
        try:
            status = process.wait(SECONDS_BETWEEN_LOOKS)
            break
        except subprocess.TimeoutExpired:
            if requested and not passed_on:
                # If no process handles the request, the command may not have started yet. So the
                # next look sends the request again, which the other processes ignore.
                passed_on = _handles_requests()
                os.killpg(0, REQUEST)
            elif terminated and not passed_on:
                passed_on = True
                os.killpg(0, signal.SIGTERM)
    if status != 0 and requested:
        return STOPPED
    return status if status >= 0 else 128 - status  # as a shell reports a signal


def _handles_requests() -> bool:
    """Whether another process of this process group has a handler for the request."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(folder.name) == os.getpid() or os.getpgid(int(folder.name)) != os.getpgrp():
                continue
            status = (folder / "status").read_text()
            # The signals that have a handler, as a hexadecimal mask: bit N - 1 is signal N.
            caught = int(status.partition("SigCgt:")[2].split()[0], base=16)
            if caught >> (REQUEST - 1) & 1:
                return True
    return False


def _ignore_requests() -> None:
    """Ignore requests in the child process, which they would otherwise kill.

    Snakemake and the shells that it starts inherit this.
    """
    signal.signal(REQUEST, signal.SIG_IGN)


# --- SLURM ----------------------------------------------------------------------------------------


def is_running() -> bool:
    """Whether this job is in a running state. It is not if somebody has cancelled it."""
    return _job().get("JobState") in ("RUNNING", "SIGNALING")  # SIGNALING: SLURM sends it a signal


def is_preempted() -> bool:
    """Whether this job is in the grace time before its preemption.

    False for a job that was preempted earlier and has started again since.
    """
    # Times such as 2026-01-31T23:59:59, whose order as text is that of time.
    job = _job()
    preempted = job.get("PreemptTime", "None")
    is_recent = preempted[:1].isdigit() and preempted >= job.get("StartTime", "")
    return is_recent and job.get("JobState") in ("RUNNING", "SIGNALING")


def requeue(number: str) -> None:
    """Put this job back into the queue. SLURM ends its present start, and with it this process."""
    try:
        _scontrol("requeue", number)
        say(f"SLURM job {number} is requeued")
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        say(f"SLURM could not requeue job {number}: {reason.strip()}")


def _job() -> dict[str, str]:
    """The fields of this job that `scontrol` prints; empty if the controller does not answer."""
    try:
        words = _scontrol("--oneliner", "show", "job", os.environ["SLURM_JOB_ID"]).split()
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)


def _scontrol(*words: str) -> str:
    """Run `scontrol` and return its output.

    SLURM may send SIGTERM to every process of the job at the same time. `scontrol` inherits the
    mask that blocks this signal here, so that SIGTERM does not end the query.
    """
    command = ["scontrol"]
    command += words
    signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
    return done.stdout


if __name__ == "__main__":
    del sys.path[0]  # this folder, where `queue.py` would hide Python's own module
    if sys.argv[1] == "--step":
        sys.exit(run_step(sys.argv[2:]))
    sys.exit(run_batch(sys.argv[1:]))
