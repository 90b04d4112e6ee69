"""A folder where `snakemake --profile slurm` runs cells of seconds on a real SLURM."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rspo.config.load import read_values
from rspo.config.merge import merge
from rspo.slurm.profile import EXECUTORS
from tests.support import ROOT, tiny_world
from tests.support.slurm_cluster import Cluster
from tests.support.snakemake_project import PROGRAMS

# One benchmark and two cells; laid over the small world.
CONFIG: dict[str, Any] = {
    "data": {
        "train": {"generated": {"families": ["linear"], "problems": 40}},
        "suites": {
            "standard": {
                "linear": {
                    "label": "linear",
                    "generated": {"families": ["linear"], "split": "test", "problems": 6},
                }
            }
        },
    },
    "grid": {
        "scalability": {
            "suite": "standard",
            "cells": [{"model": "small", "objective": "rspo_pass_at_k", "k": 4, "n": [8, 16]}],
        }
    },
}
FIGURE = "reports/fig_scalability.pdf"
CELLS = ["small--rspo-pass--k4--n8--s0", "small--rspo-pass--k4--n16--s0"]
# Seconds. The longest run takes three minutes on an idle machine.
LONGEST_RUN = 1200
# Shorter intervals than in the shipped profile, which is made for long runs. With the first one,
# the queue is read every three seconds. The tests' SLURM notices a lost node after 10 seconds.
IMPATIENT = ["--latency-wait=30", "--slurm-patient-unnoticed-end-timeout=30"]
IMPATIENT += [f"--{name}-init-seconds-before-status-checks=1" for name in EXECUTORS]


def make_project(folder: Path, **more: Any) -> Path:
    """The project's files and a config of seconds; `more` is laid over the config."""
    for name in ("workflow", "profiles", "slurm", "envs"):
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "Snakefile", folder)
    config = read_values(ROOT / "config" / "tiny.yaml")
    config = merge(config, tiny_world.OVERRIDES)
    config["data"]["suites"] = {}
    for layer in (CONFIG, more):
        grid = layer.get("grid")
        config = merge(config, layer)
        config["grid"] = grid or config["grid"]
    (folder / "config").mkdir()
    (folder / "config" / "tiny.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return folder


def start(
    cluster: Cluster,
    project: Path,
    *words: str,
    log: Path | None = None,
    config: Sequence[str] = ("scale=tiny",),
) -> "subprocess.Popen[str]":
    """`snakemake --profile slurm WORDS --config CONFIG`, at the tiny scale."""
    output = (log or project / "snakemake.log").open("a")
    environment = cluster.environment | {"PYTHONPATH": str(ROOT)}
    environment["PATH"] = f"{PROGRAMS}:{environment['PATH']}"
    return subprocess.Popen(
        [PROGRAMS / "snakemake", "--profile", "slurm", *words, *IMPATIENT, "--config", *config],
        cwd=project,
        env=environment,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def run(
    cluster: Cluster,
    project: Path,
    *words: str,
    config: Sequence[str] = ("scale=tiny",),
    seconds: float = LONGEST_RUN,
) -> tuple[int, str]:
    """The same, to its end: exit status and what the user saw."""
    log = project / "snakemake.log"
    before = log.stat().st_size if log.exists() else 0
    process = start(cluster, project, *words, log=log, config=config)
    try:
        status = process.wait(timeout=seconds)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
    return status, log.read_bytes()[before:].decode()


def edit_profile(project: Path, changes: Mapping[str, Any]) -> None:
    """Set values of slurm/config.yaml by dotted key; None removes the key."""
    path = project / "slurm" / "config.yaml"
    profile = json.loads(json.dumps(yaml.safe_load(path.read_text())))  # without aliases
    for key, value in changes.items():
        *parents, last = key.split(".")
        section = profile
        for parent in parents:
            section = section[parent]
        section.pop(last, None)
        if value is not None:
            section[last] = value
    path.write_text(yaml.safe_dump(profile))
