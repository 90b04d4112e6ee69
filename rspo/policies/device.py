"""Where the local engine and the sampler `torch` compute, and in which data type."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rspo.config.schema import LocalSettings
from rspo.core.errors import InputError
from rspo.policies.qwen2 import Qwen2
from rspo.policies.tokenizer import ChatTokenizer

_log = logging.getLogger(__name__)
_CPUINFO = Path("/proc/cpuinfo")  # Linux has it
# Extensions of x86 processors that multiply matrices of bfloat16.
_BFLOAT16 = {"avx512_bf16", "amx_bf16"}


@dataclass(frozen=True)
class Place:
    """A device, and the data type in which the layers of a model compute there."""

    device: torch.device
    dtype: torch.dtype

    def put(self, model: Qwen2) -> Qwen2:
        """Move a model to the device; its parameters stay in float32."""
        model.compute_dtype = self.dtype
        return model.to(self.device)

    @property
    def gpu(self) -> str:
        """The name that the driver gives to the GPU; empty on another device."""
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else ""

    @property
    def note(self) -> dict[str, Any]:
        """The place as a note of the provenance."""
        of_gpu = {"gpu": self.gpu} if self.gpu else {}
        dtype = str(self.dtype).removeprefix("torch.")
        return {"device": str(self.device)} | of_gpu | {"dtype": dtype}


@dataclass(frozen=True)
class PassLimits:
    """How much one forward pass computes at most.

    responses: responses in a pass of a training.
    logits: numbers in a table of probabilities, tokens x vocabulary. A pass has several such tables
        in float32.
    """

    responses: int
    logits: int


# More responses overflow a core's cache.
_ON_A_PROCESSOR = PassLimits(responses=128, logits=2**25)
# On an H200, larger passes took a quarter of the time (docs/gpu.md). Keys and values of 512 prompts
# of 500 tokens and five tables of 2^27 logits, of a model of 135M parameters, take 11 GB.
_ON_A_GPU = PassLimits(responses=512, logits=2**27)


def pass_limits(device: torch.device) -> PassLimits:
    """The limits on a device."""
    return _ON_A_GPU if device.type == "cuda" else _ON_A_PROCESSOR


CPU_FLOAT32 = Place(torch.device("cpu"), torch.float32)


def place_for(tokenizer: ChatTokenizer, settings: LocalSettings) -> Place:
    """The place for a model: as the config says, or the CPU in float32 for a tiny one.

    Tiny models stay there, so that their results are the same on every machine, bit for bit.

    Raises: InputError for a device that PyTorch does not find on this machine.
    """
    if tokenizer.is_tiny:
        return CPU_FLOAT32
    device = _device(settings.device)
    return Place(torch.device(device), _dtype(settings.dtype, device))


def _device(wanted: str) -> str:
    """The device with this name in the config.

    "auto" is the first of a GPU, Apple's MPS and the CPU that PyTorch finds.
    """
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    found = [device for device, is_there in available.items() if is_there]
    if wanted == "auto":
        return found[0]
    if wanted not in found:
        raise InputError(
            f"local.device = {wanted!r}: PyTorch {torch.__version__} finds no such device; "
            f"allowed on this machine: auto, {', '.join(found)}"
        )
    return wanted


def _dtype(wanted: str, device: str) -> torch.dtype:
    """The data type with this name in the config; "auto" is bfloat16 where that is fast."""
    is_fast = _computes_bfloat16(device)
    if wanted == "auto":
        return torch.bfloat16 if is_fast else torch.float32
    if wanted == "bfloat16" and not is_fast:
        _log.warning(
            "local.dtype = 'bfloat16': this %s has no instructions for it, so it is slower than "
            "float32",
            device,
        )
    return torch.bfloat16 if wanted == "bfloat16" else torch.float32


def cpu_dtype() -> torch.dtype:
    """The data type that `local.dtype: auto` chooses on the CPU of this machine."""
    return _dtype("auto", "cpu")


def _computes_bfloat16(device: str) -> bool:
    """Whether a device has instructions for products of matrices of bfloat16."""
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device == "mps" or not _CPUINFO.is_file():
        return False
    for line in _CPUINFO.read_text().splitlines():
        name, _, flags = line.partition(":")
        if name.strip() == "flags":
            return not _BFLOAT16.isdisjoint(flags.split())
    return False
