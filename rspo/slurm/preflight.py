"""What Snakemake checks before the first job of a run: packages and, for SLURM, `rspo doctor`."""

import argparse
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

from snakemake.cli import parse_args
from snakemake.exceptions import WorkflowError

from rspo.config.schema import Config
from rspo.slurm.cluster import NoAnswer, Slurm
from rspo.slurm.launch import Kind
from rspo.slurm.profile import EXECUTORS, PROFILE


def require_slurm(config: Config) -> None:
    """Raises: WorkflowError if Snakemake uses the project's profile and SLURM does not answer.

    Called while the Snakefile is read, because the executor asks SLURM before `onstart`. Such a run
    cannot start at all, so the message also names a package that the scale's jobs need.
    """
    if not _uses_profile():
        return
    with redirect_stderr(StringIO()):  # it prints the names of the profiles a second time
        _, options = parse_args(sys.argv[1:])
    if options.executor not in EXECUTORS or options.dryrun or options.touch:
        return
    if fault := _fault_of_slurm():
        missing = _missing_packages({"train", "sample", "score"}, config)
        raise WorkflowError("; ".join([*missing[:1], fault]))


def _fault_of_slurm() -> str:
    """Why SLURM does not answer on this machine; empty if it does."""
    if shutil.which("squeue") is None:
        return (
            "SLURM is not installed here (no command squeue): use --profile slurm on a machine of "
            "the cluster; `snakemake all` without it runs the tiny scale here"
        )
    try:
        Slurm().ask("squeue", "--noheader", "--name=rspo-none")
    except NoAnswer as error:
        return str(error)
    return ""


def require_packages(workflow: Any, config: Config) -> None:
    """Raises: WorkflowError if this environment lacks verl or vLLM and a job is going to import it.

    Such a job can be the last of a run, after hours of training.
    """
    rules = {job.rule.name for job in workflow.dag.needrun_jobs()}
    for message in _missing_packages(rules, config):
        raise WorkflowError(message)


def _missing_packages(rules: set[str], config: Config) -> list[str]:
    """A message for each setting whose package a job of these rules imports and this lacks."""
    needed = []
    if "train" in rules and config.engine == "verl":
        needed.append(("engine = 'verl'", "verl"))
    if "sample" in rules and config.sampler == "vllm":
        needed.append(("sampler = 'vllm'", "vllm"))
    if rules & {"train", "score"} and config.starts_judge:
        needed.append(("verifier = 'xverify' without xverify.url", "vllm"))
    return [
        f"{setting} needs the package {package}: `make setup-verl` installs it, "
        "`make setup-gpu` on a machine with GPUs"
        for setting, package in needed
        if find_spec(package) is None
    ]


def run_doctor(workflow: Any) -> None:
    """Check what the jobs of a workflow need; print what should change.

    `rspo doctor` runs in a process of its own, because it imports PyTorch and verl.

    Raises: WorkflowError with a line for each finding that is certain to stop a job.
    """
    rules = {job.rule.name for job in workflow.dag.needrun_jobs() if not job.is_local}
    if not rules or not _uses_profile():
        return
    words = [sys.executable, "-m", "rspo", "doctor"]
    words += [f"--rule={rule}" for rule in sorted(rules)]
    print(
        "Checking config, software and cluster as `rspo doctor` does.", file=sys.stderr, flush=True
    )
    done = subprocess.run(words, capture_output=True, text=True)
    lines = [(line[:7].strip(), line[9:]) for line in done.stdout.splitlines()]
    errors = [line for kind, line in lines if kind == Kind.ERROR]
    warnings = [line for kind, line in lines if kind == Kind.WARNING]
    if done.returncode not in (0, 2) or (done.returncode and not errors + warnings):
        # The profile is invalid, or `rspo doctor` was killed.
        silent = f"`rspo doctor` exited with {done.returncode}"
        last = (done.stderr.strip() or silent).splitlines()[-1]
        errors = [last.removeprefix("rspo: error: ")]
    if errors:
        raise WorkflowError("\n".join(errors))
    for line in warnings:
        print(f"rspo: {line}", file=sys.stderr, flush=True)


def _uses_profile() -> bool:
    """Whether this Snakemake was started with the project's profile; the user may have another."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--profile", default=os.environ.get("SNAKEMAKE_PROFILE"))
    parser.add_argument("--workflow-profile")
    options, _ = parser.parse_known_args()
    folder = PROFILE.parent.resolve()
    return any(name and Path(name).resolve() == folder for name in vars(options).values())
