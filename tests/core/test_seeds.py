"""Seeds stay as they are: with others, finished results could not be repeated."""

import torch

from rspo.core.seeds import generator_of, seed_of


def test_the_seed_of_some_parts_is_always_the_same() -> None:
    assert seed_of() == 1665333220245342802
    assert seed_of(0, "sampling", 3) == 6391993740483892878


def test_a_seed_depends_on_every_part_and_on_their_order() -> None:
    seeds = {seed_of(1, 2), seed_of(2, 1), seed_of(1, 2, 0), seed_of(12), seed_of("1", 2)}
    assert len(seeds) == 5


def test_a_generator_begins_anew_with_its_seed() -> None:
    first = torch.rand(3, generator=generator_of(1, "a"))
    assert torch.rand(3, generator=generator_of(1, "a")).tolist() == first.tolist()
    assert torch.rand(3, generator=generator_of(1, "b")).tolist() != first.tolist()
    assert generator_of(1, "a").initial_seed() == seed_of(1, "a")
