"""How far a run is: read from the files of its jobs, and shown while it runs."""
