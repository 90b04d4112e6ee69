"""The pipeline: its tasks, the state of their results, and how a task runs."""
