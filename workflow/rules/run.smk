# How this Snakemake runs the rules, also on SLURM and inside a SLURM job.

from rspo.snakemake.patches import always_run
from rspo.snakemake.start import end_run, read_workflow, start_run

read_workflow(workflow, experiment)


onstart:
    start_run(workflow, rules, experiment, given.environment)


always_run(workflow, "onstart", onstart)


onsuccess:
    end_run(workflow, experiment)


always_run(workflow, "onsuccess", onsuccess)
