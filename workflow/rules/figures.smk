# All scales share reports/, which has the files of the scale that ran last, while results/ has a folder
# for each scale. A folder chosen with `--config results=DIR` has its own reports.
rule figure:
    input:
        lambda wildcards: figure_of(wildcards).input_files,
    output:
        report(
            update(multiext(f"{REPORTS}/{{figure}}", *SUFFIXES)),
            caption="../report/figure.rst",
            category="Figures",
        ),
    log:
        f"{RESULTS}/logs/figure/{{figure}}.log",
    localrule: True
    params:
        settings=lambda wildcards: figure_of(wildcards).settings_hash,
        caption=lambda wildcards: named(figures, wildcards.figure).caption,
    shell:
        rspo_command("figure {wildcards.figure} --force")


# With another folder of results, a request for reports/FILE ends with an error that names the right
# file (`in_own_folder`); Snakemake itself would only say that no rule makes it. This rule is not part of
# a module, because there another rule of the main Snakefile may make the file.
if REPORTS != "reports" and workflow.modifier.is_main_snakefile():

    rule report_in_another_folder:
        input:
            in_own_folder,
        output:
            "reports/{file}",
        localrule: True


# The time and the GPUs that the jobs of every policy used.
rule cost:
    input:
        [
            f"{RESULTS}/cells/{policy}/curves/{suite}.parquet"
            for policy, suite in experiment.evaluations
        ],
    output:
        update(f"{RESULTS}/tables/cost.csv"),
    log:
        f"{RESULTS}/logs/cost.log",
    localrule: True
    params:
        settings=lambda _: tasks.cost(experiment).settings_hash,
    shell:
        rspo_command("cost --force")
