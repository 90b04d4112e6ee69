"""What this project knows of SLURM: the job it runs in, the jobs of a folder, and the profile."""
