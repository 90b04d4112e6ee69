"""What the workflow checks before the first job of a run: packages, SLURM, and `rspo doctor`."""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from contextlib import ExitStack, redirect_stderr
from functools import cache
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

from snakemake.cli import parse_args
from snakemake.exceptions import WorkflowError

from rspo.config.schema import Config
from rspo.core.locks import exclusive_lock
from rspo.slurm.cluster import NoAnswer, Slurm
from rspo.slurm.launch import Kind
from rspo.slurm.profile import EXECUTORS, PROFILE


def require_slurm(config: Config) -> None:
    """Check that SLURM answers, if Snakemake uses the project's profile.

    The workflow calls this while Snakemake reads the Snakefile, because the executor asks SLURM
    before `onstart` and its error would come first.

    Raises: WorkflowError if SLURM does not answer. Such a run ends before the check of packages, so
        the message also names a package that this environment lacks, if any.
    """
    if not _uses_profile():
        return
    # Snakemake does not give a Snakefile its options, so its command line is parsed once more. That
    # prints the names of the profiles a second time.
    with redirect_stderr(StringIO()):
        _, options = parse_args(sys.argv[1:])
    if options.executor not in EXECUTORS or options.dryrun or options.touch:
        return
    fault = _fault_of_slurm()
    if fault:
        missing = _missing_packages({"train", "sample", "score"}, config)
        raise WorkflowError("; ".join(missing[:1] + [fault]))


def _fault_of_slurm() -> str:
    """A sentence that says why SLURM does not answer on this machine; empty if it does."""
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


_HELD = ExitStack()  # the locks of this run; nothing closes the stack before the process ends


def jobs_of(workflow: Any, rules: Any) -> list[tuple[str, Any]]:
    """The jobs that a run is going to start for the rules of a Snakefile, which may be a module.

    Args:
        rules: the global variable `rules` of that Snakefile.

    Returns: pairs of a rule's name in that Snakefile and a job. The job's own rule may have another
        name, because the Snakefile that uses a module may rename its rules.
    """
    # The name of each rule in that Snakefile, by its name in the run, which `proxy.rule` has.
    names = {proxy.rule.name: name for name, proxy in rules._rules.items()}
    planned = workflow.dag.needrun_jobs()
    return [(names[job.rule.name], job) for job in planned if job.rule.name in names]


@cache  # two modules may write reports to the same folder, and would lock each other out
def lock_until_the_end(folder: Path) -> None:
    """Lock a folder until this process ends, however it ends.

    Raises: InputError if another process has locked it.
    """
    _HELD.enter_context(exclusive_lock(folder, waits=False))


def require_packages(rules: Collection[str], config: Config) -> None:
    """Check the packages that the jobs of some rules import.

    The job that imports a package may be the last of a run and fail after hours of training.

    Raises: WorkflowError if this environment lacks verl or vLLM, and a job is going to import it.
    """
    for message in _missing_packages(rules, config):
        raise WorkflowError(message)


def _missing_packages(rules: Collection[str], config: Config) -> list[str]:
    """A message for each setting that needs a package which this environment lacks.

    Args:
        rules: the names of the rules that have jobs; other rules need no package.
    """
    needed = []
    if "train" in rules and config.engine == "verl":
        needed.append(("engine = 'verl'", "verl"))
    if "sample" in rules and config.sampler == "vllm":
        needed.append(("sampler = 'vllm'", "vllm"))
    if config.starts_judge and ("train" in rules or "score" in rules):
        needed.append(("verifier = 'xverify' without xverify.url", "vllm"))
    return [
        f"{setting} needs the package {package}: `make setup-verl` installs it, "
        "`make setup-gpu` on a machine with GPUs"
        for setting, package in needed
        if find_spec(package) is None
    ]


def run_doctor(jobs: Collection[tuple[str, Any]], environment: Mapping[str, str]) -> None:
    """Check with `rspo doctor` what the submitted jobs need, and print its warnings.

    `rspo doctor` runs in a process of its own, because it imports PyTorch and verl.

    Args:
        jobs: the result of `jobs_of`.
        environment: the variables with which `rspo doctor` reads the experiment.

    Raises: WorkflowError with a line for each finding that is certain to stop a job.
    """
    submitted = {job.rule.name: name for name, job in jobs if not job.is_local}
    if not submitted or not _uses_profile():
        return
    for name_here, name in submitted.items():
        if name_here != name:
            # The profile sets the resources of SLURM by the names of rules.
            raise WorkflowError(
                f"{PROFILE} has no resources for {name_here}: use the rule {name} of the module "
                "without another name"
            )
    words = [sys.executable, "-m", "rspo", "doctor"]
    words += [f"--rule={rule}" for rule in sorted(submitted)]
    print(
        "Checking config, software and cluster as `rspo doctor` does.", file=sys.stderr, flush=True
    )
    done = subprocess.run(words, env=os.environ | environment, capture_output=True, text=True)
    # Each line begins with a kind of finding in a column of seven characters (`Kind`).
    lines = [(line[:7].strip(), line[9:]) for line in done.stdout.splitlines()]
    errors = [line for kind, line in lines if kind == Kind.ERROR]
    warnings = [line for kind, line in lines if kind == Kind.WARNING]
    # 2 is the status of a report with errors or warnings, and of an error before the report.
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
    """Whether this Snakemake was started with the project's profile, and not one of the user."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--profile", default=os.environ.get("SNAKEMAKE_PROFILE"))
    parser.add_argument("--workflow-profile")
    options, _ = parser.parse_known_args()
    folder = PROFILE.parent.resolve()
    return any(name and Path(name).resolve() == folder for name in vars(options).values())
