# reports/ has the files of the scale that ran last; results/ has one folder per scale. A folder chosen
# with `--config results=DIR` has its own reports.
rule figure:
    input:
        lambda wildcards: figure_of(wildcards).input_files,
    output:
        update(multiext(f"{REPORTS}/{{figure}}", *SUFFIXES)),
    log:
        f"{RESULTS}/logs/figure/{{figure}}.log",
    localrule: True
    params:
        settings=lambda wildcards: figure_of(wildcards).settings_hash,
    shell:
        "rspo figure {wildcards.figure} --force 2>&1 | tee -ip {log}"


# Snakemake itself would only say that no rule makes the file.
if REPORTS != "reports":

    rule report_in_another_folder:
        input:
            in_own_folder,
        output:
            "reports/{file}",
        localrule: True


# Time and GPUs that the jobs of every policy used.
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
        settings=lambda _: steps.cost(experiment).settings_hash,
    shell:
        "rspo cost 2>&1 | tee -ip {log}"
