"""Seeds for every independent use of randomness, all from the seeds of the config."""

import hashlib

import torch


def seed_of(*parts: object) -> int:
    """A 63-bit seed that depends on every part, such as seed_of(cell_seed, "sampling", step)."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator_of(*parts: object) -> torch.Generator:
    """A fresh CPU generator with `seed_of(*parts)`: nothing to save or restore at a resume."""
    return torch.Generator().manual_seed(seed_of(*parts))
