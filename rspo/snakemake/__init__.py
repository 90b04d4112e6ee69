"""What the workflow checks of a run: its plan before the first job, and its results at the end."""
