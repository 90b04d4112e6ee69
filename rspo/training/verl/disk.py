"""Disk usage of a cell, in bytes per parameter of its model."""

POLICY = 4  # float32
CHECKPOINT = 4 * POLICY  # weights, two moments, and the weights as a Hugging Face folder
PEAK = 2 * CHECKPOINT  # the previous one is removed when the next is complete
