"""The progress of a run, which is read from the files of its jobs and shown while it runs."""
