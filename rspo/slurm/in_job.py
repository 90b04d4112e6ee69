"""Snakemake inside a SLURM job: signals of SLURM reach the rule's command."""

import signal
import sys

import psutil

from rspo.core.signals import REQUEST
from rspo.core.slurm_job import is_preempted, requeue
from rspo.slurm.snakemake_patches import requeue_when_preempted


def forward_stop_requests() -> None:
    """Send every request to stop on to the processes that this one started.

    Where SLURM tracks processes by cgroups, it signals only the first process of a job step, which
    is Snakemake. Elsewhere it signals all of them, and they receive the request twice.
    """
    signal.signal(REQUEST, lambda number, frame: _request_stop())
    requeue_when_preempted(is_preempted, _request_stop, _requeue)


def _request_stop() -> None:
    for process in psutil.Process().children(recursive=True):
        try:
            process.send_signal(REQUEST)
        except psutil.NoSuchProcess:
            continue


def _requeue() -> None:
    print(f"rspo: {requeue()}", file=sys.stderr, flush=True)
