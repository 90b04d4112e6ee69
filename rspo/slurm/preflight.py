"""What Snakemake checks before the first job of a run: packages and, for SLURM, `rspo doctor`."""

import argparse
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError

from rspo.config.schema import Config
from rspo.slurm.launch import Kind
from rspo.slurm.profile import PROFILE


def require_packages(workflow: Any, config: Config) -> None:
    """Raises: WorkflowError if this environment lacks verl or vLLM and a job is going to import it.

    Such a job can be the last of a run, after hours of training.
    """
    rules = {job.rule.name for job in workflow.dag.needrun_jobs()}
    needed = []
    if "train" in rules and config.engine == "verl":
        needed.append(("engine = 'verl'", "verl"))
    if "sample" in rules and config.sampler == "vllm":
        needed.append(("sampler = 'vllm'", "vllm"))
    if rules & {"train", "score"} and config.starts_judge:
        needed.append(("verifier = 'xverify' without xverify.url", "vllm"))
    for setting, package in needed:
        if find_spec(package) is None:
            raise WorkflowError(
                f"{setting} needs the package {package}: `make setup-verl` installs it, "
                "`make setup-gpu` on a machine with GPUs"
            )


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
