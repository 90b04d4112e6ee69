"""Samples -> scores -> curves: Pass@k and Max@k of a policy, with their errors."""
