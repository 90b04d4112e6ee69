"""What the objectives share: ratios of binomials, and sums over the gaps of sorted rewards."""

from rspo.passk import fraction_of_subsets_below, from_gaps

__all__ = ["fraction_of_subsets_below", "from_gaps"]
