"""The CPU as a platform of verl, so that its trainer, FSDP and checkpoints run without a GPU.

`run.py` sets an environment variable, VERL_USE_EXTERNAL_MODULES, that makes every process of a CPU
run import this module.

Depends on verl/plugin/platform/platform_base.py. `CpuPlatform` has all abstract methods of
`PlatformBase`; if verl adds an abstract method, Python refuses to instantiate `CpuPlatform`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import psutil
import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

NAME = "cpu"


class CpuModule(ModuleType):
    """`torch.cpu` with those functions of `torch.cuda` that verl calls.

    There is no device memory, so `memory_allocated` and the similar functions return 0.
    """

    get_rng_state = staticmethod(torch.get_rng_state)
    set_rng_state = staticmethod(torch.set_rng_state)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def get_device_name(self) -> str:
        return NAME

    def empty_cache(self) -> None:
        """Do nothing: a CPU has no cache and no statistics of memory."""

    reset_peak_memory_stats = empty_cache

    def memory_allocated(self) -> int:
        return 0

    memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated

    def mem_get_info(self) -> tuple[int, int]:
        """Free and total bytes of the machine."""
        memory = psutil.virtual_memory()
        return memory.available, memory.total


@PlatformRegistry.register(NAME)
class CpuPlatform(PlatformBase):
    """One process per rank, with gloo for communication."""

    device_name = NAME
    vendor_name = NAME
    device_module = CpuModule("torch.cpu")

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Return False, so that verl never detects this platform: VERL_PLATFORM must select it."""
        return False

    def current_device(self) -> str:
        """A device for `Tensor.to`. PyTorch would read an index as the number of a GPU."""
        return NAME

    def device_count(self) -> int:
        return 1

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def _nothing(self, *_: Any, **__: Any) -> None:
        """Do nothing: a CPU is one device without a profiler, and its operations are synchronous.

        It also has no cache and no allocator to configure.
        """

    set_device = synchronize = set_allocator_settings = empty_cache = _nothing
    profiler_start = profiler_stop = cudart = _nothing

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """The variable that lists the slots of a process, which are logical GPUs."""
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def ray_resource_name(self) -> str:
        """The name under which verl requests a slot for each rank.

        `ray.init` declares as many logical GPUs as there are ranks (`cell_settings`).
        """
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """The variables with which verl keeps Ray from changing the list of slots of a server."""
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False
