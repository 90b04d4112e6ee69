# Comparisons beyond the paper's, made on request: `snakemake reports/fig_peers.pdf`.
rule study:
    input:
        lambda wildcards: studies.step(experiment, wildcards.study).input_files,
    output:
        multiext(f"{RESULTS}/tables/{{study}}", ".csv", "_methods.csv", ".md"),
    log:
        f"{RESULTS}/logs/study/{{study}}.log",
    wildcard_constraints:
        study="|".join(experiment.config.studies) or "(?!)",
    params:
        settings=lambda wildcards: studies.step(experiment, wildcards.study).settings_hash,
    shell:
        "rspo study {wildcards.study} 2>&1 | tee -ip {log}"


# Gradients of the study's objectives, on one policy.
rule study_gradients:
    input:
        judge_files(experiment.config.verifier),
        policy=f"{RESULTS}/cells/{{policy}}/policy",
        problems=f"{RESULTS}/problems/train.parquet",
    output:
        f"{RESULTS}/cells/{{policy}}/gradients_{{study}}.parquet",
    log:
        f"{RESULTS}/logs/gradients/{{policy}}_{{study}}.log",
    wildcard_constraints:
        study="|".join(experiment.config.studies) or "(?!)",
    resources:
        judge_server=judge_servers(experiment.config.verifier),
    params:
        settings=lambda wildcards: steps.gradients(experiment, *wildcards).settings_hash,
    shell:
        "rspo gradients {wildcards.policy} --study {wildcards.study} 2>&1 | tee -ip {log}"
