"""Stand-ins for what a machine with GPUs has and a test machine lacks.

The jobs of SLURM's fake GPUs find packages here that claim to use a GPU: PyTorch, vLLM, verl and
flash-attn do nothing else. The process that starts the run needs flash-attn to exist, because
verl's config selects it, and a large disk. Everything else is real, such as verl's own check of the
config.
"""

from pathlib import Path

_TORCH = """\
from types import SimpleNamespace

__version__ = "2.11.0"
version = SimpleNamespace(cuda="13.0")


class cuda:
    is_available = staticmethod(lambda: {available})
    get_device_properties = staticmethod(
        lambda index: SimpleNamespace(name="NVIDIA H800", total_memory=85 * 10**9)
    )

    @staticmethod
    def init():
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 12040).")
"""
_VLLM_PLATFORM = """\
class current_platform:
    is_cpu = staticmethod(lambda: {on_cpu})
"""
_DISK = """\
import shutil
from types import SimpleNamespace

shutil.disk_usage = lambda path: SimpleNamespace(free=10**13)
"""


def make_login_node(folder: Path) -> Path:
    """A folder for PYTHONPATH of the process that starts a run."""
    _write(folder / "flash_attn" / "__init__.py", "")
    about = folder / "flash_attn-2.8.3.dist-info"  # transformers reads it
    _write(about / "METADATA", "Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8.3\n")
    _write(about / "top_level.txt", "flash_attn\n")
    _write(folder / "sitecustomize.py", _DISK)
    return folder


def make_gpu_node(folder: Path, *, available: bool = True, vllm_on_cpu: bool = False) -> str:
    """A precommand for jobs on nodes with GPUs, with the packages in `folder`.

    Args:
        available: whether PyTorch can use the GPU.
    """
    _write(folder / "torch.py", _TORCH.format(available=available))
    _write(folder / "vllm" / "__init__.py", '__version__ = "0.24.0"\n')
    _write(folder / "vllm" / "platforms.py", _VLLM_PLATFORM.format(on_cpu=vllm_on_cpu))
    _write(folder / "verl.py", '__version__ = "0.9.1"\n')
    _write(folder / "flash_attn.py", '__version__ = "2.8.3"\n')
    return f"export HF_HUB_OFFLINE=1 PYTHONPATH={folder}:$PYTHONPATH"


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
