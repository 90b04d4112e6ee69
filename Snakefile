# The workflow, for those who look for it here.
include: "workflow/Snakefile"
