# The tables of comparisons beyond the paper's. They are no targets of `all`, but made on request, such
# as for `snakemake reports/fig_peers.pdf`.
rule study:
    input:
        lambda wildcards: studies.task(experiment, wildcards.study).input_files,
    output:
        update(multiext(f"{RESULTS}/tables/{{study}}", ".csv", "_methods.csv", ".md")),
    log:
        f"{RESULTS}/logs/study/{{study}}.log",
    # Other tables match the outputs too. Without studies, the constraint (?!) matches no name.
    wildcard_constraints:
        study="|".join(experiment.config.studies) or "(?!)",
    params:
        settings=lambda wildcards: studies.task(experiment, wildcards.study).settings_hash,
    shell:
        rspo_command("study {wildcards.study} --force")
