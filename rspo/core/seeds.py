"""Seeds of independent random streams, derived from the seeds in the config."""

import hashlib

import torch


def seed_of(*parts: object) -> int:
    """A 63-bit seed, a hash of all parts, such as seed_of(cell_seed, "sampling", step)."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def generator_of(*parts: object) -> torch.Generator:
    """A new CPU generator with `seed_of(*parts)`. It has no state to save in a checkpoint."""
    return torch.Generator().manual_seed(seed_of(*parts))
