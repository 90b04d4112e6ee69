"""Driver, CUDA and packages, as `rspo doctor` checks them on a node."""

import platform

from rspo.gpu_check.settings import CheckFailed, Settings
from rspo.slurm import node_checks, probe

_PACKAGES = ("torch", "vllm", "verl")


def check(settings: Settings) -> str:
    answer = probe.Answer("", platform.node(), {})
    probe.look_for_software(answer, _PACKAGES, settings.device == "cuda")
    if findings := list(node_checks.software(answer)):
        raise CheckFailed("; ".join(f"this node {finding.line}" for finding in findings))
    return node_checks.details(answer)
