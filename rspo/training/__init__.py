"""Training of policies. Start reading at `local`, the algorithm of the paper."""
