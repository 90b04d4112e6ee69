"""Files, locks, processes, signals and seeds: what all other packages use."""
