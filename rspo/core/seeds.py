"""Seeds of independent random streams, derived from the seeds in the config.

The parts of a seed say what its stream is for, such as ("sampling", step). So a resumed training
draws the same numbers without a saved state, and a new stream leaves the other streams as they are.
"""

import hashlib

import torch


def seed_of(*parts: object) -> int:
    """A seed of 63 bits: the hash of all parts, as in seed_of(cell_seed, "sampling", step)."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    # Shifted by one bit, because tables and libraries have seeds as signed integers of 64 bits.
    return int.from_bytes(digest[:8], "big") >> 1


def generator_of(*parts: object) -> torch.Generator:
    """A new generator on the CPU, seeded with `seed_of(*parts)`."""
    return torch.Generator().manual_seed(seed_of(*parts))
