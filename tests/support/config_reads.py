"""Records which keys of verl's config the processes of a training read.

Processes import this module because VERL_USE_EXTERNAL_MODULES names it. Each writes the keys that
it reads to its own file in the folder RSPO_CONFIG_READS: dotted keys of OmegaConf's sections, and
CLASS.FIELD of verl's dataclasses. Copying or converting a section is not a read.

`python -m tests.support.config_reads CONFIG` prepares a vLLM server with verl's CONFIG, and ends
before it would start.
"""

import asyncio
import dataclasses
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

from omegaconf import DictConfig, OmegaConf
from verl.base_config import BaseConfig

# Files whose reads do not count.
_CONVERSIONS = (
    *("/omegaconf/", "/hydra/", "/dataclasses.py", "/copy.py", "_collections_abc", "<string>"),
    "/verl/base_config.py",
)
_recorded: set[str] = set()


def _record(key: str) -> None:
    frame = sys._getframe(2)
    if frame.f_code.co_name in ("get", "__getitem__") and "base_config" in frame.f_code.co_filename:
        assert frame.f_back is not None
        frame = frame.f_back
    ignored = any(part in frame.f_code.co_filename for part in _CONVERSIONS)
    if not ignored and key not in _recorded:
        _recorded.add(key)
        with (Path(os.environ["RSPO_CONFIG_READS"]) / str(os.getpid())).open("a") as file:
            file.write(f"{key}\n")


def _record_sections() -> None:
    for name in ("__getattr__", "__getitem__", "get"):
        original = getattr(DictConfig, name)

        def read(self: DictConfig, key: Any, *default: Any, original: Any = original, **more: Any):  # type: ignore[no-untyped-def]
            if not str(key).startswith("_"):
                _record(self._get_full_key(key))
            return original(self, key, *default, **more)

        setattr(DictConfig, name, read)
    select = OmegaConf.select

    def select_and_record(config: Any, key: str, **more: Any) -> Any:
        _record(f"{config._get_full_key('')}.{key}".replace("..", ".").removeprefix("."))
        return select(config, key, **more)

    OmegaConf.select = staticmethod(select_and_record)  # type: ignore[assignment]


def _record_dataclasses() -> None:
    def read(self: BaseConfig, name: str) -> Any:
        if not name.startswith("_"):
            for base in type(self).__mro__:
                if dataclasses.is_dataclass(base) and name in base.__dataclass_fields__:
                    _record(f"{type(self).__name__}.{name}")
                    break
        return object.__getattribute__(self, name)

    BaseConfig.__getattribute__ = read  # type: ignore[method-assign]


if "RSPO_CONFIG_READS" in os.environ and __name__ != "__main__":
    _record_sections()
    _record_dataclasses()


def prepare_server(config_file: Path) -> None:
    import ray
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.rollout.replica import RolloutMode

    from rspo.training.verl.vllm_rollout import Server

    config = OmegaConf.load(config_file)
    OmegaConf.resolve(config)
    section = config.actor_rollout_ref
    section.rollout.merge_with({"name": "vllm", "full_determinism": False})
    rollout, model = map(omega_conf_to_dataclass, (section.rollout, section.model))
    with (
        patch.object(ray, "get_runtime_context"),
        patch.object(Server, "run_server", AsyncMock()) as run,
    ):
        ray.get_runtime_context().get_job_id.return_value = "01000000"
        server = Server(rollout, model, RolloutMode.HYBRID, [], 0, 0, 1, 1, "0")
        asyncio.run(server.launch_server())
        run.assert_awaited_once()


if __name__ == "__main__":
    prepare_server(Path(sys.argv[1]))
