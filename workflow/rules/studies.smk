# The tables of comparisons beyond the paper's. They are not targets of `all`. Snakemake makes them if
# a requested file needs them, such as reports/fig_peers.pdf.
rule study:
    input:
        lambda wildcards: studies.task(experiment, wildcards.study).input_files,
    output:
        update(multiext(f"{RESULTS}/tables/{{study}}", ".csv", "_methods.csv", ".md")),
    log:
        f"{RESULTS}/logs/study/{{study}}.log",
    # Without a constraint, the names of other tables would match too, such as cost.csv. If the config
    # has no studies, the constraint is (?!), which matches no name.
    wildcard_constraints:
        study="|".join(experiment.config.studies) or "(?!)",
    params:
        settings=lambda wildcards: studies.task(experiment, wildcards.study).settings_hash,
    shell:
        rspo_command("study {wildcards.study} --force")
