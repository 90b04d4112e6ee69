# The workflow is in workflow/. This file is for those who look for it here.
include: "workflow/Snakefile"


# `snakemake` without a target; Snakemake takes no default target from an included file.
rule default:
    default_target: True
    input:
        rules.all.input,
