"""Files, locks, provenance, processes, signals and seeds, used by all other packages."""
