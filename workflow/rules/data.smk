rule prepare:
    output:
        f"{RESULTS}/problems/{{data_set}}.parquet",
    log:
        f"{RESULTS}/logs/prepare/{{data_set}}.log",
    localrule: True
    params:
        settings=lambda wildcards: tasks.prepare(experiment, wildcards.data_set).settings_hash,
        mirror=MIRROR_OPTION,
    shell:
        rspo_command("prepare {wildcards.data_set} {params.mirror}")


# The problems of every data set.
rule data:
    input:
        [f"{RESULTS}/problems/{data_set}.parquet" for data_set in experiment.data_sets],
