"""Files, locks, processes, signals and seeds, used by all other packages."""
