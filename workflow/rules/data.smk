rule prepare:
    output:
        f"{RESULTS}/problems/{{data_set}}.parquet",
    log:
        f"{RESULTS}/logs/prepare/{{data_set}}.log",
    params:
        settings=settings("prepare", "data_set"),
    shell:
        "rspo prepare {wildcards.data_set} {MIRROR_OPTION} {OPTIONS} 2>&1 | tee -i {log}"
