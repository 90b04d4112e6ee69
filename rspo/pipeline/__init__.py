"""The pipeline: its tasks, what state their results are in, and how a task runs."""
