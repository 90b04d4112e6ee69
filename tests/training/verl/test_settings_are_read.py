"""Each key that the project sets or documents is read during a training with verl.

The keys that a tiny cell on a CPU reads are recorded, and those with which verl prepares a vLLM
server.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from rspo.core.supervisor import supervised
from rspo.pipeline.verl_fingerprint import OPERATIONAL
from rspo.training.verl import verl_config as settings
from rspo.training.verl.ray_cluster import folder_of, key_of
from rspo.training.verl.run import config_text
from tests.support import ROOT, tiny_world
from tests.support.verl_package import path_with_vllm

pytestmark = pytest.mark.long
CELL = "small--rspo-pass--k4--n16--s0"
# Sections that other libraries receive as they are.
HANDED_OVER = ("ray_kwargs.ray_init", "transfer_queue")
TRAINING = tiny_world.OVERRIDES["training"] | {"steps": 1, "checkpoint_every": 1}
# As on a GPU: verl reads the size of the chunks only if there are any.
ENTROPY = {
    "model": {"use_remove_padding": True},
    "actor": {"entropy_from_logits_with_chunking": True},
}


class Reads:
    """The recorded reads, as questions about keys of verl's config."""

    def __init__(self, recorded: set[str], config: dict[str, Any]) -> None:
        self.recorded = recorded
        self.classes: dict[str, str] = {}  # of a section -> name of its dataclass
        self.aliases: dict[str, set[str]] = {}  # of a key -> keys with its value
        self.keys: set[str] = set()  # also of sections
        for key, value in leaves(config):
            parts = key.split(".")
            self.keys.update(".".join(parts[: last + 1]) for last in range(len(parts)))
            section, _, name = key.rpartition(".")
            if name == "_target_":
                self.classes[section] = str(value).rsplit(".", 1)[-1]
            for other in re.findall(r"\$\{(?:oc\.select:)?([\w.]+)", str(value)):
                self.aliases.setdefault(other, set()).add(key)

    def is_read(self, key: str) -> bool:
        section, _, name = key.rpartition(".")
        parent = section.rpartition(".")[0]
        return (
            key in self.recorded
            or any(key.startswith(f"{one}.") and one in self.recorded for one in HANDED_OVER)
            or f"{self.classes.get(section)}.{name}" in self.recorded
            # A section that is a value of a dataclass, such as mixed_precision.
            or (section not in self.classes and parent in self.classes and self.is_read(section))
            or any(self.is_read(other) for other in self.aliases.get(key, ()))
        )


def leaves(section: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values."""
    for name, value in section.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


@pytest.fixture(scope="module")
def reads(tmp_path_factory: pytest.TempPathFactory) -> Reads:
    root = tmp_path_factory.mktemp("reads")
    verl = {"overrides": {"actor_rollout_ref": ENTROPY}}
    experiment = tiny_world.load_prepared(root, training=TRAINING, engine="verl", verl=verl)
    config, folder = root / "verl.yaml", root / "recorded"
    folder.mkdir()
    config.write_text(config_text(experiment, CELL))
    modules = ("rspo.training.verl.cpu_platform", "tests.support.config_reads")
    own = {"VERL_USE_EXTERNAL_MODULES": ",".join(modules), "RSPO_CONFIG_READS": str(folder)}
    cell = experiment.files.folder(CELL)
    key, ray_folder = key_of(cell), folder_of(cell)
    driver = [sys.executable, "-m", "rspo.training.verl.driver", str(config), str(ray_folder)]
    experiment.files.checkpoint(CELL).mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in own.items():
            patch.setenv(name, value)
        patch.setenv("PYTHONPATH", str(ROOT))
        with supervised(driver, key, ray_folder) as process:
            assert process.wait() == 0
        assert (experiment.files.checkpoint(CELL) / "global_step_1").is_dir()
        patch.setenv("PYTHONPATH", path_with_vllm(root))
        command = [sys.executable, "-m", "tests.support.config_reads", str(config)]
        subprocess.run(command, cwd=ROOT, check=True, timeout=600)
    recorded = {line for file in folder.iterdir() for line in file.read_text().splitlines()}
    container = OmegaConf.to_container(OmegaConf.load(config))
    assert isinstance(container, dict)
    return Reads(recorded, container)


def test_an_unread_key_is_noticed(reads: Reads) -> None:
    assert reads.is_read("trainer.save_freq")
    assert not reads.is_read("trainer.ray_wait_register_center_timeout")
    assert not reads.is_read("actor_rollout_ref.actor.use_torch_compile")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_each_setting_of_a_device_is_read(reads: Reads, device: str) -> None:
    file = Path(settings.__file__).with_name(f"{device}.yaml")
    keys = [key for key, _ in leaves(OmegaConf.to_container(OmegaConf.load(file)))]
    assert [key for key in keys if not reads.is_read(key)] == []


def test_each_operational_key_is_read(reads: Reads) -> None:
    """Otherwise a key that verl renames would make cells stale."""
    read = {key.rpartition(".")[2] for key in reads.keys if reads.is_read(key)}
    assert sorted(OPERATIONAL - read) == []
