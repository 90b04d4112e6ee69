rule sample:
    input:
        problems_of,
        policy=f"{RESULTS}/cells/{{policy}}/policy",
    output:
        f"{RESULTS}/cells/{{policy}}/samples/{{suite}}/{{block}}.parquet",
    log:
        f"{RESULTS}/logs/sample/{{policy}}/{{suite}}/{{block}}.log",
    resources:
        # vLLM occupies a whole GPU, as a judge server does, so the same limit applies.
        judge_server=int(experiment.config.sampler == "vllm"),
    params:
        # The wildcards come in the order in which the output names them.
        settings=lambda wildcards: tasks.sample(experiment, *wildcards).settings_hash,
    shell:
        rspo_command("sample {wildcards.policy} {wildcards.suite} {wildcards.block}")


rule score:
    input:
        JUDGE_FILES,
        problems_of,
        samples=f"{RESULTS}/cells/{{policy}}/samples/{{suite}}/{{block}}.parquet",
    output:
        f"{RESULTS}/cells/{{policy}}/scores/{{suite}}/{{block}}.parquet",
    log:
        f"{RESULTS}/logs/score/{{policy}}/{{suite}}/{{block}}.log",
    resources:
        judge_server=STARTS_JUDGE,
    params:
        settings=lambda wildcards: tasks.score(experiment, *wildcards).settings_hash,
    shell:
        rspo_command("score {wildcards.policy} {wildcards.suite} {wildcards.block}")


rule fetch_judge:
    output:
        f"{RESULTS}/judge/prompt.py",
        [directory(f"{RESULTS}/judge/model")] if experiment.judge_model else [],
    log:
        f"{RESULTS}/logs/fetch_judge.log",
    localrule: True
    params:
        settings=lambda _: tasks.fetch_judge(experiment).settings_hash,
        mirror=MIRROR_OPTION,
    shell:
        rspo_command("fetch-judge {params.mirror}")


# An empty file that stands for the files of the judge. Rules that verify depend on it only. With
# another server in the config, the judge's files may be others (no download, for example), but their
# verdicts are the same, so nothing is scored again.
rule judge:
    input:
        [file for file in (experiment.files.judge_prompt, experiment.judge_model) if file],
    output:
        touch(JUDGE),
    localrule: True


rule curves:
    input:
        # Four braces become two in the f-string, and one in `expand`, which leaves the wildcards.
        expand(
            f"{RESULTS}/cells/{{{{policy}}}}/scores/{{{{suite}}}}/{{block}}.parquet",
            block=experiment.blocks(),
        ),
    output:
        f"{RESULTS}/cells/{{policy}}/curves/{{suite}}.parquet",
    log:
        f"{RESULTS}/logs/curves/{{policy}}/{{suite}}.log",
    params:
        settings=lambda wildcards: tasks.curves(experiment, *wildcards).settings_hash,
    shell:
        rspo_command("curves {wildcards.policy} {wildcards.suite}")
