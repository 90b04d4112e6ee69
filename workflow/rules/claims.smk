# Compare the paper's claims with the measurements.
#
# Here and in the rules of figures, tables and the report: `update` keeps Snakemake from deleting the
# old file before the command runs. The command replaces it when the new file is whole, for which it
# needs --force.
rule claims:
    input:
        claims.task(experiment).input_files,
    output:
        report(
            update(multiext(f"{REPORTS}/", "claims.csv", "claim_comparisons.csv")),
            caption="../report/claims.rst",
            category="Claims",
        ),
    log:
        f"{RESULTS}/logs/claims.log",
    params:
        settings=lambda _: claims.task(experiment).settings_hash,
    shell:
        rspo_command("claims --force")
