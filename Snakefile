# From a config of experiments to figures. Every rule is one call of the `rspo` command.
#
#   snakemake all                            all figures and tables at tiny scale
#   snakemake reports/fig_scalability.pdf    one figure and what it depends on
#   snakemake reports/report.html            the report: all figures and tables on one page
#   snakemake data                           the problems of every data set, and their overlaps
#   snakemake -n all --config scale=paper    count the jobs of the paper's scale (dry run)
#
# Config keys (--config KEY=VALUE): `scale` selects config/SCALE.yaml; `mirror` is a folder with
# copies of the hub's data sets and models; `results` is a folder for a trial run, with reports of its
# own (default: results/SCALE); any other key overrides one of config/SCALE.yaml, such as seeds=3.


container: "envs/rspo.sif"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/studies.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        # Intermediate files are targets too: Snakemake recreates a missing one only if requested.
        [str(path) for path in experiment.files],
        expand(
            "{place}/{figure}{suffix}",
            place=[f"{RESULTS}/figures", REPORTS],
            figure=in_all(experiment),
            suffix=SUFFIXES,
        ),
        expand(
            "{place}/tables/{table}.csv",
            place=[RESULTS, REPORTS],
            table=["curves", "answers", "cost", "claim_comparisons", "contamination"],
        ),
        expand("{place}/claims.{kind}", place=[f"{RESULTS}/tables", REPORTS], kind=["csv", "md"]),
        expand("{place}/report.html", place=[RESULTS, REPORTS]),


include: "workflow/rules/run.smk"
