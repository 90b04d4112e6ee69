"""Training engines: the same cell in, the same files out.

`local` is one process; it is also the readable statement of the algorithm.
"""
