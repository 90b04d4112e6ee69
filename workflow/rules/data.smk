rule prepare:
    output:
        f"{RESULTS}/problems/{{data_set}}.parquet",
    log:
        f"{RESULTS}/logs/prepare/{{data_set}}.log",
    localrule: True
    params:
        settings=lambda wildcards: steps.prepare(experiment, wildcards.data_set).settings_hash,
        mirror=MIRROR_OPTION,
    shell:
        "rspo prepare {wildcards.data_set} {params.mirror} 2>&1 | tee -ip {log}"


rule contamination:
    input:
        [f"{RESULTS}/problems/{data_set}.parquet" for data_set in experiment.data_sets],
    output:
        f"{RESULTS}/tables/contamination.csv",
    log:
        f"{RESULTS}/logs/contamination.log",
    localrule: True
    params:
        settings=steps.contamination(experiment).settings_hash,
    shell:
        "rspo contamination 2>&1 | tee -ip {log}"


# All data sets, and a table of the problems that two of them share.
rule data:
    input:
        rules.contamination.input,
        rules.contamination.output,
