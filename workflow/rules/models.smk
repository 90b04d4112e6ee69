rule pretrain:
    output:
        directory(f"{RESULTS}/cells/{{model}}--base/policy"),
    log:
        f"{RESULTS}/logs/pretrain/{{model}}.log",
    localrule: True
    params:
        settings=lambda wildcards: tasks.pretrain(experiment, wildcards.model).settings_hash,
        mirror=MIRROR_OPTION,
    shell:
        rspo_command("pretrain {wildcards.model} {params.mirror}")


# All base policies, pretrained or downloaded, and the files of the judge.
rule models:
    input:
        expand(f"{RESULTS}/cells/{{base}}/policy", base=experiment.bases),
        JUDGE_FILES,
