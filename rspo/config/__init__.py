"""From a scale's config file to a validated experiment, its cells and the names of its files."""
