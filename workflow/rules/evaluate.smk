# One job samples all tables of a policy on a suite that are missing or outdated, because loading a
# policy takes longer than sampling a table. `rspo` keeps copies of the tables, because Snakemake deletes
# all outputs of a job before it starts (rspo/evaluation/suite_tables.py).
for STEP in ("sample", "score"):
    share_resources(workflow, STEP, [f"{STEP}_{suite}" for suite in experiment.config.data.suites])

for SUITE in experiment.config.data.suites:

    rule:
        name:
            f"sample_{SUITE}"
        input:
            policy=f"{RESULTS}/cells/{{policy}}/policy",
            problems=problems_of(SUITE),
        output:
            tables_of("samples", SUITE),
        log:
            f"{RESULTS}/logs/sample/{{policy}}/{SUITE}.log",
        conda:
            CONDA
        resources:
            # vLLM occupies a whole GPU, as a judge server does.
            judge_server=int(experiment.config.sampler == "vllm"),
        params:
            suite=SUITE,
            settings=settings("sample"),
        shell:
            "rspo sample {wildcards.policy} {params.suite} 2>&1 | tee -ip {log}"

    rule:
        name:
            f"score_{SUITE}"
        input:
            judge_files(experiment.config.verifier),
            samples=tables_of("samples", SUITE),
            problems=problems_of(SUITE),
        output:
            tables_of("scores", SUITE),
        log:
            f"{RESULTS}/logs/score/{{policy}}/{SUITE}.log",
        conda:
            CONDA
        resources:
            judge_server=judge_servers(experiment.config.verifier),
        params:
            suite=SUITE,
            settings=settings("score"),
        shell:
            "rspo score {wildcards.policy} {params.suite} 2>&1 | tee -ip {log}"


rule fetch_prompt:
    output:
        f"{RESULTS}/judge/prompt.py",
    log:
        f"{RESULTS}/logs/fetch_prompt.log",
    localrule: True
    conda:
        CONDA
    params:
        settings=settings("fetch-prompt"),
    shell:
        "rspo fetch-prompt 2>&1 | tee -ip {log}"


rule fetch_judge:
    output:
        directory(f"{RESULTS}/judge/model"),
    log:
        f"{RESULTS}/logs/fetch_judge.log",
    localrule: True
    conda:
        CONDA
    params:
        settings=settings("fetch-judge"),
        mirror=MIRROR_OPTION,
    shell:
        "rspo fetch-judge {params.mirror} 2>&1 | tee -ip {log}"


# Stamp for the files of the judge. Depend only on this stamp, so that changing the server does not
# trigger re-scoring.
rule judge:
    input:
        [file for file in (experiment.judge_prompt, experiment.judge_model) if file],
    output:
        touch(JUDGE),
    localrule: True


# Compare two verifiers on the samples of the base policies.
rule agreement:
    input:
        judge_files(experiment.config.agreement.against),
        [file for pair in compared(experiment) for file in compared_files(experiment, *pair)],
        expand(f"{RESULTS}/problems/{{pair[1]}}.parquet", pair=compared(experiment)),
    output:
        multiext(f"{RESULTS}/tables/", "agreement.csv", "disagreements.csv"),
    log:
        f"{RESULTS}/logs/agreement.log",
    conda:
        CONDA
    resources:
        judge_server=judge_servers(experiment.config.agreement.against),
    params:
        settings=settings("agreement"),
    shell:
        "rspo agreement 2>&1 | tee -ip {log}"


rule curves:
    input:
        lambda wildcards: [
            file
            for benchmark in experiment.benchmarks_of(wildcards.suite)
            for file in experiment.score_files(wildcards.policy, benchmark)
        ],
    output:
        f"{RESULTS}/cells/{{policy}}/curves/{{suite}}.parquet",
    log:
        f"{RESULTS}/logs/curves/{{policy}}/{{suite}}.log",
    conda:
        CONDA
    params:
        settings=settings("curves"),
    shell:
        "rspo curves {wildcards.policy} {wildcards.suite} 2>&1 | tee -ip {log}"


rule gradients:
    input:
        judge_files(experiment.config.verifier),
        policy=f"{RESULTS}/cells/{{policy}}/policy",
        problems=f"{RESULTS}/problems/train.parquet",
    output:
        f"{RESULTS}/cells/{{policy}}/gradients.parquet",
    log:
        f"{RESULTS}/logs/gradients/{{policy}}.log",
    conda:
        CONDA
    resources:
        judge_server=judge_servers(experiment.config.verifier),
    params:
        settings=settings("gradients"),
    shell:
        "rspo gradients {wildcards.policy} 2>&1 | tee -ip {log}"
