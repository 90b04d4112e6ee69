"""What the workflow adds to Snakemake: checks of each run, its progress, and some corrections."""
