rule pretrain:
    output:
        directory(f"{RESULTS}/cells/{{model}}--base/policy"),
    log:
        f"{RESULTS}/logs/pretrain/{{model}}.log",
    localrule: True
    params:
        settings=lambda wildcards: steps.pretrain(experiment, wildcards.model).settings_hash,
        mirror=MIRROR_OPTION,
    shell:
        "rspo pretrain {wildcards.model} {params.mirror} 2>&1 | tee -ip {log}"


# Whether a model can be trained and evaluated on the problems, known before a job waits for a GPU.
# Depend on this stamp as `ancient`, so that newer problems of a benchmark do not trigger training.
rule check_prompts:
    input:
        f"{RESULTS}/cells/{{model}}--base/policy",
        lambda wildcards: [
            f"{RESULTS}/problems/{name}.parquet"
            for name in experiment.data_sets_of(wildcards.model)
        ],
    output:
        touch(f"{RESULTS}/cells/{{model}}--base/prompts_checked"),
    log:
        f"{RESULTS}/logs/check_prompts/{{model}}.log",
    localrule: True
    params:
        limits=experiment.config.model_dump_json(include={"sampling"}),
    shell:
        "rspo check-prompts {wildcards.model} 2>&1 | tee -ip {log}"
