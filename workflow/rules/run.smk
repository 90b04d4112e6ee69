# The checks of a run, and changes to how Snakemake runs the rules. This file is included last, when all
# rules are known. It applies to local runs, to runs on SLURM, and inside SLURM jobs.

from rspo.snakemake.patches import always_run
from rspo.snakemake.start import end_run, read_workflow, start_run

read_workflow(workflow, experiment)


# Snakemake ignores the `onstart` and `onsuccess` of a module; `always_run` makes it call them.
onstart:
    start_run(workflow, rules, experiment, given.environment)


always_run(workflow, "onstart", onstart)


onsuccess:
    end_run(workflow, experiment)


always_run(workflow, "onsuccess", onsuccess)
