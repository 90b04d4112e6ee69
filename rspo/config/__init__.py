"""A scale's config file -> a validated experiment -> cells and file names."""
