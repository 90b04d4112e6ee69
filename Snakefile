# From a config of experiments to figures: every rule is one call of the `rspo` command.
#
#   snakemake all                            everything, at tiny scale
#   snakemake reports/fig_scalability.pdf    one figure and what it needs
#   snakemake reports/report.html            everything, on one page
#   snakemake data                           the problems of every set, and which ones they share
#   snakemake -n all --config scale=paper    what the paper's own scale would run
#
# Config keys (--config KEY=VALUE): scale, a file config/SCALE.yaml; mirror, a folder with copies
# of hub data sets; and any key of that file, such as seeds=3.


container: "envs/rspo.sif"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        # Snakemake makes a file again that was lost between two others only where it is asked for.
        [str(path) for path in experiment.files],
        expand(
            "{place}/{figure}{suffix}",
            place=[f"{RESULTS}/figures", "reports"],
            figure=available(experiment),
            suffix=SUFFIXES,
        ),
        expand(
            "{place}/tables/{table}.csv",
            place=[RESULTS, "reports"],
            table=["curves", "cost", "claim_comparisons"],
        ),
        expand("{place}/claims.{kind}", place=[f"{RESULTS}/tables", "reports"], kind=["csv", "md"]),
        expand("{place}/report.html", place=[RESULTS, "reports"]),


# Every rule's software, where it is asked for (--sdm conda, --sdm apptainer): envs/README.md.
# Nowhere else: Snakemake would look after it for every job.
if DeploymentMethod.CONDA in software:
    for rule_ in workflow.rules:
        rule_.conda_env = conda_file()


onstart:
    prepare_for_slurm()
    follow_progress(workflow.dag)


onerror:
    tell_what_was_given_up()
